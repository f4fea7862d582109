// Package codes groups the codes of a classification, such as ICD-10 or ATC, by their first characters.
package codes

import "slices"

// Prefixes groups codes by the longest prefix that they begin with.
type Prefixes struct {
	at      map[string]int
	lengths []int // lengths of prefixes, longest first
}

// NewPrefixes takes distinct prefixes.
func NewPrefixes(prefixes []string) *Prefixes {
	p := &Prefixes{at: make(map[string]int, len(prefixes))}
	for i, prefix := range prefixes {
		p.at[prefix] = i
		p.lengths = append(p.lengths, len(prefix))
	}
	slices.Sort(p.lengths)
	p.lengths = slices.Compact(p.lengths)
	slices.Reverse(p.lengths)
	return p
}

// Of returns the index of the longest prefix of a code; false without one.
func (p *Prefixes) Of(code string) (place int, found bool) {
	for _, n := range p.lengths {
		if n > len(code) {
			continue
		}
		if at, is := p.at[code[:n]]; is {
			return at, true
		}
	}
	return 0, false
}

// Is returns the index of a text that is itself a prefix.
func (p *Prefixes) Is(text string) (place int, found bool) {
	at, is := p.at[text]
	return at, is
}

// List groups the codes of a list by prefix.
type List struct {
	known map[string]bool
	under [][]string
}

// NewList groups the codes of a list, each once. It omits codes without a prefix.
func NewList(p *Prefixes, all []string) *List {
	l := &List{known: make(map[string]bool, len(all)), under: make([][]string, len(p.at))}
	for _, code := range all {
		if at, found := p.Of(code); found && !l.known[code] {
			l.known[code] = true
			l.under[at] = append(l.under[at], code)
		}
	}
	return l
}

// Has reports whether a code is in the list.
func (l *List) Has(code string) bool { return l.known[code] }

// Empty is the index of the first prefix without a code, or -1.
func (l *List) Empty() int {
	return slices.IndexFunc(l.under, func(codes []string) bool { return len(codes) == 0 })
}

// At is the code that a row with this prefix is written with. Rows cycle through the list's codes by row number.
func (l *List) At(place, row int) string { return l.under[place][row%len(l.under[place])] }
