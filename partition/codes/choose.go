package codes

import (
	"container/heap"
	"slices"
	"unicode"
	"unicode/utf8"
)

// Choose gives prefixes of a public list of codes, sorted, so that each code has one: the finest with at most so
// many of them. It begins with first characters and divides the prefix with the most codes by one character more,
// as long as there is room. It looks at the list alone. It is nil where even the first characters are more than
// most, and for a list without codes.
func Choose(codes []string, most int) []string {
	sorted := slices.Clone(codes)
	slices.Sort(sorted)
	sorted = slices.DeleteFunc(slices.Compact(sorted), func(code string) bool { return code == "" })
	open := &groups{}
	for _, g := range (group{codes: sorted}).divided() {
		heap.Push(open, g)
	}
	n := open.Len()
	if n > most {
		return nil
	}
	var chosen []string
	for open.Len() > 0 {
		g := heap.Pop(open).(group)
		parts := g.divided()
		if len(parts) < 2 || n-1+len(parts) > most {
			chosen = append(chosen, g.prefix)
			continue
		}
		n += len(parts) - 1
		for _, part := range parts {
			heap.Push(open, part)
		}
	}
	slices.Sort(chosen)
	return chosen
}

// group are the codes under a prefix, sorted; whole marks that of a code that is itself a prefix of others, and has no
// parts.
type group struct {
	prefix string
	codes  []string
	whole  bool
}

// divided are the groups of a longer prefix, where they first differ. A prefix ends in a letter or a digit.
func (g group) divided() (parts []group) {
	if len(g.codes) == 0 || g.whole || len(g.codes) == 1 && g.prefix != "" {
		return nil
	}
	length := len(g.prefix)
	for {
		longest := 0
		for _, code := range g.codes {
			longest = max(longest, len(code))
		}
		if length >= longest {
			return parts
		}
		parts = parts[:0]
		length++
		for _, code := range g.codes {
			prefix := cut(code, length)
			if last := len(parts) - 1; last >= 0 && parts[last].prefix == prefix && !parts[last].whole {
				parts[last].codes = append(parts[last].codes, code)
				continue
			}
			parts = append(parts, group{prefix: prefix, codes: []string{code}, whole: prefix == g.prefix})
		}
		if len(parts) > 1 || g.prefix == "" {
			return parts
		}
	}
}

// cut is a code's prefix of so many bytes, longer where that would end within a character or in punctuation.
func cut(code string, length int) string {
	end := min(length, len(code))
	for end < len(code) {
		last, _ := utf8.DecodeLastRuneInString(code[:end])
		if utf8.RuneStart(code[end]) && (unicode.IsLetter(last) || unicode.IsDigit(last)) {
			break
		}
		end++
	}
	return code[:end]
}

// groups are a heap with the most codes on top, and of equal ones the first.
type groups []group

func (g groups) Len() int { return len(g) }
func (g groups) Less(i, j int) bool {
	if len(g[i].codes) != len(g[j].codes) {
		return len(g[i].codes) > len(g[j].codes)
	}
	return g[i].prefix < g[j].prefix
}
func (g groups) Swap(i, j int) { g[i], g[j] = g[j], g[i] }
func (g *groups) Push(x any)   { *g = append(*g, x.(group)) }
func (g *groups) Pop() any {
	last := (*g)[len(*g)-1]
	*g = (*g)[:len(*g)-1]
	return last
}
