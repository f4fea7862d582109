package postgres

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/tally"
)

// pieces maps numbers to cells: values from breaks[i-1] up to breaks[i] are in cells[i].
type pieces struct {
	breaks []float64
	cells  []int
}

// maxEach bounds the whole numbers that are mapped one by one, whether the table has them or not.
const maxEach = 1 << 16

// maxNear bounds the distinct values near borders in a column.
const maxNear = 1 << 22

// piecesOf makes the pieces of each column of numbers from the table's values near borders. Other columns have none.
func (p *Pushed) piecesOf(in *session, t *tally.Tally) ([]pieces, error) {
	out, near := make([]pieces, len(t.Columns)), make([][]float64, len(t.Columns))
	zones := make([][][2]float64, len(t.Columns))
	need := map[int]bool{}
	for i := range t.Columns {
		if c := &t.Columns[i]; c.Near != nil {
			zones[i] = merged(c.Near)
			need[c.Column] = true
		}
	}
	if len(need) == 0 {
		return out, nil
	}
	s := p.from(need)
	var cells []string
	for i := range zones {
		if zones[i] == nil {
			continue
		}
		var ends []float64
		for _, z := range zones[i] {
			ends = append(ends, z[0], math.Nextafter(z[1], math.Inf(1)))
		}
		if c := p.columns[t.Columns[i].Column]; c.Kind == partition.Integer && c.Upper-c.Lower < maxEach {
			for v := c.Lower; v <= c.Upper; v++ {
				near[i] = append(near[i], v)
			}
			continue
		}
		v := p.cell(s, t.Columns[i].Column)
		cells = append(cells, fmt.Sprintf("(%d, case when width_bucket(%s, %s) %% 2 = 1 then %s end)", i, v,
			s.numbers(ends), v))
	}
	if cells != nil {
		sql := "select distinct v.at, v.what" + s.cells(cells)
		err := in.ask("find the values near borders", sql, s.params, func(row [][]byte) error {
			at, err := whole(row[0])
			v, other := real(row[1])
			if err != nil || other != nil {
				return errUnexpected
			}
			if len(near[at]) == maxNear {
				return fmt.Errorf("sql.pushdown: more than %d different values of a column are at borders of cells; "+
					"round them in the query, or remove sql.pushdown", maxNear)
			}
			near[at] = append(near[at], v)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	for i := range zones {
		if zones[i] != nil {
			slices.Sort(near[i])
			lo, hi := p.columns[t.Columns[i].Column].Range()
			within := func(v float64) int { return t.Columns[i].Cell(min(max(v, lo), hi)) }
			out[i] = split(within, zones[i], near[i])
		}
	}
	return out, nil
}

// merged joins intervals that touch.
func merged(near [][2]float64) (zones [][2]float64) {
	near = slices.SortedFunc(slices.Values(near), func(a, b [2]float64) int { return cmp.Compare(a[0], b[0]) })
	for _, n := range near {
		if last := len(zones) - 1; last >= 0 && n[0] <= math.Nextafter(zones[last][1], math.Inf(1)) {
			zones[last][1] = max(zones[last][1], n[1])
			continue
		}
		zones = append(zones, n)
	}
	return zones
}

// split makes pieces of zones that contain only these values.
func split(cell func(float64) int, zones [][2]float64, values []float64) pieces {
	p := pieces{cells: []int{cell(math.Nextafter(zones[0][0], math.Inf(-1)))}}
	add := func(from float64) {
		if at := cell(from); at != p.cells[len(p.cells)-1] {
			p.breaks, p.cells = append(p.breaks, from), append(p.cells, at)
		}
	}
	for _, z := range zones {
		for len(values) > 0 && values[0] <= z[1] {
			add(values[0])
			values = values[1:]
		}
		add(math.Nextafter(z[1], math.Inf(1)))
	}
	return p
}
