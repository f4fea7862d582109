package proposal

import (
	"slices"
	"strings"
	"sync"
	"unicode"
)

// key is the form in which names are compared: only small letters and digits.
func key(name string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(name) {
		switch r {
		case 'ä':
			b.WriteString("ae")
		case 'ö':
			b.WriteString("oe")
		case 'ü':
			b.WriteString("ue")
		case 'ß':
			b.WriteString("ss")
		case 'µ', 'μ':
			b.WriteByte('u')
		case '%':
			b.WriteString("pct")
		case '²':
			b.WriteByte('2')
		default:
			if unicode.IsLetter(r) || unicode.IsDigit(r) {
				b.WriteRune(r)
			}
		}
	}
	return b.String()
}

// match is the meaning of a name: a variable, and its unit, which is nil if the name leaves it open.
type match struct {
	variable *variable
	unit     *unit
}

// named are the variables by all keys that name them.
var named = sync.OnceValue(func() map[string]match {
	all := make(map[string]match)
	for i := range variables {
		v := &variables[i]
		for _, alias := range v.Aliases {
			m := match{variable: v}
			if len(v.Units) == 1 {
				m.unit = &v.Units[0]
			}
			all[alias] = m
			for j := range v.Units {
				for _, suffix := range v.Units[j].Suffixes {
					all[alias+suffix] = match{v, &v.Units[j]}
				}
			}
		}
	}
	return all
})

// builtIn finds the common variable that a column's name stands for.
func builtIn(name string) (m match, ok bool) {
	m, ok = named()[key(name)]
	return m, ok
}

// choices lists the units of a variable with their limits, for a comment.
func (v *variable) choices() string {
	var all []string
	for _, u := range v.Units {
		all = append(all, u.Name+": "+u.Lower+" to "+u.Upper)
	}
	return strings.Join(all, "; ")
}

// answers are pairs of words for no and yes. They are public knowledge in any table.
var answers = [][]string{{"no", "yes"}, {"No", "Yes"}, {"NO", "YES"}, {"n", "y"}, {"N", "Y"}, {"nein", "ja"},
	{"Nein", "Ja"}, {"NEIN", "JA"}, {"n", "j"}, {"N", "J"}, {"false", "true"}, {"False", "True"}, {"FALSE", "TRUE"},
	{"f", "t"}}

// firstWith is the first of sets that contains all values of the cells.
func firstWith(sets [][]string, values map[string]int) []string {
	for _, set := range sets {
		all := len(values) > 0
		for value := range values {
			all = all && slices.Contains(set, value)
		}
		if all {
			return set
		}
	}
	return nil
}
