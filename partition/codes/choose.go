package codes

import (
	"container/heap"
	"slices"
	"unicode"
	"unicode/utf8"
)

// Choose returns sorted prefixes of a public list of codes, such that each code has one: the finest set with at most
// most prefixes. It starts with first characters and repeatedly extends the prefix with the most codes by one
// character while there is room. It depends only on the list. It is nil for an empty list, or if the first characters
// alone exceed most.
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

// group has the sorted codes under a prefix. whole marks the group of a code that is itself a prefix of others; it
// cannot be divided.
type group struct {
	prefix string
	codes  []string
	whole  bool
}

// divided returns the groups of a longer prefix, where the codes first differ. A prefix ends in a letter or a digit.
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

// cut returns a code's prefix of length bytes, or a longer one if that would end within a character or in
// punctuation.
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

// groups is a heap with the most codes on top; the first wins ties.
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
