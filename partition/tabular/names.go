package tabular

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/conclave-dp/conclave/partition"
)

// columnNames finds what a source column is by its name: a column of the schema, toWeights, or toNowhere.
type columnNames struct {
	exact  map[string]int
	folded map[string][]int // keyed by the result of fold
	words  map[int]string   // target -> name
}

func namesOf(s *partition.Schema, weights bool) *columnNames {
	n := &columnNames{map[string]int{}, map[string][]int{}, map[int]string{}}
	put := func(name string, target int) {
		n.exact[name], n.words[target] = target, name
		if f := fold(name); !slices.Contains(n.folded[f], target) {
			n.folded[f] = append(n.folded[f], target)
		}
	}
	for _, name := range s.Ignore {
		put(name, toNowhere)
	}
	if weights && s.ColumnIndex(partition.WeightColumn) < 0 {
		put(partition.WeightColumn, toWeights)
	}
	for i := range s.Columns {
		put(s.Columns[i].Name, i)
	}
	return n
}

// fold makes names equal that differ only in case, spaces, underscores and invisible marks.
func fold(name string) string {
	return strings.Join(strings.FieldsFunc(strings.ToLower(name), func(r rune) bool {
		return unicode.IsSpace(r) || r == '_' || r == '\ufeff' || r == '\u200b'
	}), " ")
}

// count is the number of the schema's columns that names match exactly or approximately.
func (n *columnNames) count(names []string) (known int) {
	seen := map[int]bool{}
	for _, name := range names {
		at, ok := n.exact[name]
		if !ok {
			if similar := n.folded[fold(name)]; len(similar) > 0 {
				at, ok = similar[0], true
			}
		}
		if ok && !seen[at] {
			seen[at] = true
			known++
		}
	}
	return known
}

// matched holds what the columns of a source are.
type matched struct {
	target  []int        // of each column
	found   map[int]bool // targets
	known   int
	unknown []int        // columns that are not in the schema
	twice   []string     // duplicate names
	similar []string     // pairs of similar names, as text
	alike   []string     // ambiguous names
	unclear map[int]bool // their possible targets
}

// match uses exact names first, and similar names for the rest.
func (n *columnNames) match(header []SourceColumn) *matched {
	m := &matched{target: make([]int, len(header)), found: map[int]bool{}, unclear: map[int]bool{}}
	var rest []int
	for i := range header {
		at, ok := n.exact[header[i].Name]
		switch {
		case !ok:
			rest = append(rest, i)
		case m.found[at] && at != toNowhere:
			m.twice = append(m.twice, header[i].Name)
		default:
			m.take(i, at)
		}
	}
	wanted := map[int][]int{} // target -> columns with a similar name
	for _, i := range rest {
		similar := slices.DeleteFunc(slices.Clone(n.folded[fold(header[i].Name)]), func(at int) bool {
			return m.found[at] && at != toNowhere
		})
		switch len(similar) {
		case 0:
			m.unknown = append(m.unknown, i)
		case 1:
			wanted[similar[0]] = append(wanted[similar[0]], i)
		default:
			m.alike = append(m.alike, header[i].Name)
			for _, at := range similar {
				m.unclear[at] = true
			}
		}
	}
	for _, i := range rest {
		for at, columns := range wanted {
			switch {
			case !slices.Contains(columns, i):
			case len(columns) > 1 && at != toNowhere:
				m.alike, m.unclear[at] = append(m.alike, header[i].Name), true
			default:
				m.take(i, at)
				if at != toNowhere {
					m.similar = append(m.similar, fmt.Sprintf("%q is %q", header[i].Name, n.words[at]))
				}
			}
		}
	}
	return m
}

func (m *matched) take(column, at int) {
	m.target[column], m.found[at] = at, true
	m.known++
}
