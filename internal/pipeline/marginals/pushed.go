package marginals

import (
	"github.com/conclave-dp/conclave/partition/encode"
	"github.com/conclave-dp/conclave/partition/tally"
)

// tally is the question as a database counts it: the same whole numbers as [asked.count] for each record.
func (a *asked) tally(encoder *encode.Encoder) *tally.Tally {
	t := &tally.Tally{Entries: a.entries}
	for i := range a.columns {
		c := &a.columns[i]
		in := tally.Cells{Column: c.column, N: c.n, Sign: c.sign,
			Cell: func(v float64) int { return c.cell(encoder.Kept(c.column, v)) }}
		for _, from := range c.from {
			lo, hi := encoder.Near(c.column, from)
			in.Near = append(in.Near, [2]float64{lo, hi})
		}
		t.Columns = append(t.Columns, in)
	}
	for _, of := range a.tables {
		t.Tables = append(t.Tables, tally.Count{First: of.first, Second: of.second,
			Along: a.columns[of.second].size(), Start: of.offset, Weight: int(of.weight)})
	}
	if a.together > 0 {
		for first := range a.columns {
			for second := first + 1; second < len(a.columns); second++ {
				t.Tables = append(t.Tables, tally.Count{First: first, Second: second, Along: 1, Start: len(t.Tables),
					Weight: int(a.together)})
			}
		}
	}
	return t
}
