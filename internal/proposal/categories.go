package proposal

import (
	"math"
	"slices"
	"strconv"

	"github.com/conclave-dp/conclave/partition"
)

// A value is proposed as a category if at least frequentRows rows and frequentShare of all rows have it: it
// then hardly identifies a single row. That is no guarantee, and the column has source: rows.
const (
	frequentRows  = 20
	frequentShare = 0.01
	// mostRare is the largest share of a column's cells whose values are too rare to be listed. Above it, a
	// person lists all values.
	mostRare = 0.5
)

// categorical takes the categories of the dictionary, of a common variable, of a pair of answers, or the frequent ones
// of the rows.
func (m *maker) categorical(c *Column, p *profile, e entry) {
	known, common := builtIn(p.name)
	var public []string
	if common {
		public = firstWith(known.variable.Categories, p.values)
	}
	switch pair := firstWith(answers, p.values); {
	case len(e.categories) > 0:
		c.Categories, c.Names, c.Source = e.categories, e.names, partition.SourceDictionary
	case public != nil:
		c.Categories, c.Source = public, partition.SourceBuiltIn
	case pair != nil && len(p.values) == len(pair):
		c.Categories, c.Source = pair, partition.SourceBuiltIn
	default:
		m.frequent(c, p)
	}
}

// frequent takes the categories that many rows have, in alphabetical order, which does not reveal their counts.
func (m *maker) frequent(c *Column, p *profile) {
	least, covered := max(frequentRows, int(math.Ceil(frequentShare*float64(m.table.rows)))), 0
	var frequent []string
	for value, n := range p.values {
		if n >= least && oneLine(value) {
			frequent = append(frequent, value)
			covered += n
		}
	}
	if len(frequent) == 0 || float64(covered) < mostRare*float64(p.cells) {
		c.hint("list all values that a cell may have, from public knowledge")
		return
	}
	slices.Sort(frequent)
	c.Categories, c.Source = frequent, partition.SourceRows
	c.remark("outside the guarantee: from the rows")
	if covered < p.cells {
		c.remark("add rarer values from public knowledge, or runs will refuse their rows")
	}
}

// roundOutward rounds bounds outward to whole numbers.
func roundOutward(lower, upper string) (string, string) {
	whole := func(bound string, to func(float64) float64) string {
		v, fault := partition.ParseNumber(bound)
		if fault != nil || v == math.Trunc(v) {
			return bound // TODO, or a whole number already
		}
		return strconv.FormatFloat(to(v), 'f', -1, 64)
	}
	return whole(lower, math.Floor), whole(upper, math.Ceil)
}
