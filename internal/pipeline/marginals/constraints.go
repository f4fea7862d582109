package marginals

import (
	"fmt"
	"math"
	"slices"

	"github.com/conclave-dp/conclave/internal/pipeline/marginals/tree"
	"github.com/conclave-dp/conclave/partition"
)

// forbidden are the cells of a table of columns in which every row breaks a constraint of the schema.
type forbidden struct {
	columns []int // places, in rising order
	cells   []bool
}

// maxCombined bounds the combinations of fine cells of a constraint's columns.
const maxCombined = 1 << 26

// checkConstraints refuses constraints whose columns have too many cells for a joint table. fine are the cells of
// the first sum.
func (t *training) checkConstraints(fine []cells) error {
	widest := t.widest()
	sizes := make([]int, len(widest))
	for i, c := range widest {
		sizes[i] = c.n
	}
	var sets [][]int
	for i, c := range t.schema().Constraints() {
		places, combined := placesOf(&c, widest), 1
		for _, place := range places {
			if combined *= fine[place].n; combined > maxCombined {
				return fmt.Errorf("the columns of constraint %d of the schema have more than %d combinations of "+
					"cells; lower marginals.fine, or list fewer categories", i+1, maxCombined)
			}
		}
		sets = append(sets, places)
	}
	if cells := tree.Cells(sizes, sets); len(sets) > 0 && cells > t.o.Size {
		return fmt.Errorf("the columns of the schema's constraints need a model of %d cells, and marginals.size is "+
			"%d; raise it, or lower marginals.cells", cells, t.o.Size)
	}
	return nil
}

// placesOf returns the places of a constraint's columns.
func placesOf(c *partition.Constraint, columns []cells) (places []int) {
	for place := range columns {
		if slices.Contains(c.Columns, columns[place].column) {
			places = append(places, place)
		}
	}
	return places
}

// combine calls a function with every combination of fine cells of the columns at some places, and with the
// coarse cell of their table that contains it.
func combine(places []int, coarse []cells, of func(place int) []int, each func(fine []int, cell int)) {
	fine := make([]int, len(places))
	var try func(at, cell int)
	try = func(at, cell int) {
		if at == len(places) {
			each(fine, cell)
			return
		}
		for i, c := range of(places[at]) {
			fine[at] = i
			try(at+1, cell*coarse[places[at]].n+c)
		}
	}
	try(0, 0)
}

// sizeOf is the size of the table of these columns.
func sizeOf(places []int, coarse []cells) int {
	n := 1
	for _, place := range places {
		n *= coarse[place].n
	}
	return n
}

// forbidden returns the coarse cells in which every combination of fine cells breaks a constraint. If only some
// rows in a cell break one, [model.Sample] rejects them.
func (t *training) forbidden(fine []fineColumn, coarse []cells, of [][]int) (all []forbidden) {
	row := make([]float64, len(t.schema().Columns))
	for _, c := range t.schema().Constraints() {
		f := forbidden{columns: placesOf(&c, coarse)}
		f.cells = slices.Repeat([]bool{true}, sizeOf(f.columns, coarse))
		combine(f.columns, coarse, func(place int) []int { return of[place] }, func(at []int, cell int) {
			for i, place := range f.columns {
				row[fine[place].column] = fine[place].between(&c, at[i], 0)
			}
			f.cells[cell] = f.cells[cell] && c.Breaks(row)
		})
		all = append(all, f)
	}
	return all
}

// between is a value of a fine cell: at 0 the one that breaks a constraint least, at 1 the one that breaks it
// most.
func (c *cells) between(of *partition.Constraint, fine int, part float64) float64 {
	if !isNumber(c.of) || fine >= len(c.from) {
		if c.of.Nullable && fine == c.n-1 {
			return math.NaN()
		}
		return float64(fine)
	}
	lo, hi := c.span(fine)
	if hi = math.Nextafter(hi, math.Inf(-1)); c.of.Kind == partition.Integer {
		lo, hi = math.Ceil(lo), math.Floor(hi)
	}
	best, worst := of.Best(c.column, lo, hi), of.Best(c.column, hi, lo)
	v := best + part*(worst-best)
	if c.of.Kind == partition.Integer {
		v = math.Round(v)
	}
	return v
}

// beforeRejection returns the model from which rows are drawn before those that break a constraint are dropped.
// The remaining rows are distributed over cells as in the fitted model: a cell that loses a third of its rows
// gets half as many more.
func (m *model) beforeRejection(fitted *tree.Tree, coarse []cells) *tree.Tree {
	row := make([]float64, len(m.schema.Columns))
	var factors []tree.Factor
	for _, c := range m.schema.Constraints() {
		places := placesOf(&c, coarse)
		kept := make([]float64, sizeOf(places, coarse))
		combine(places, coarse, func(place int) []int { return m.columns[place].of }, func(at []int, cell int) {
			share := 1.0
			for i, place := range places {
				share *= float64(m.columns[place].shares[at[i]])
			}
			if share > 0 {
				kept[cell] += share * m.meeting(&c, places, at, row)
			}
		})
		for i := range m.orders {
			if o := &m.orders[i]; slices.Equal(o.constraint.Columns, c.Columns) {
				for pair, share := range o.meeting {
					kept[o.cell(pair)] = share
				}
			}
		}
		for i, k := range kept {
			kept[i] = 1
			if k > 0 {
				kept[i] = min(1/k, mostRejected)
			}
		}
		factors = append(factors, tree.Factor{Columns: places, By: kept})
	}
	before, _ := fitted.Given(factors) // no factor is 0, so nothing becomes impossible
	return before
}

const (
	// mostRejected bounds the rows that are drawn for one accepted row of a constraint.
	mostRejected = 1000
	// gridded is the number of values of a fine cell that are tried.
	gridded = 8
)

// meeting estimates the share of rows in fine cells that meet a constraint.
func (m *model) meeting(c *partition.Constraint, places, fine []int, row []float64) float64 {
	breaks := func(part func(i int) float64) bool {
		for i, place := range places {
			row[m.columns[place].column] = m.columns[place].between(c, fine[i], part(i))
		}
		return c.Breaks(row)
	}
	switch {
	case breaks(func(int) float64 { return 0 }):
		return 0
	case !breaks(func(int) float64 { return 1 }):
		return 1
	}
	n, met := 1, 0.0 // only an order of two numbers needs more: others treat all values of a fine cell alike
	for range places {
		n *= gridded
	}
	for at := range n {
		if !breaks(func(i int) float64 {
			digit := at
			for range i {
				digit /= gridded
			}
			return (float64(digit%gridded) + 0.5) / gridded
		}) {
			met++
		}
	}
	return met / float64(n)
}

// sets adds the columns of constraints to those of a model.
func (r *released) sets(chosen [][]int) [][]int {
	all := slices.Clone(chosen)
	for _, f := range r.forbidden {
		all = append(all, f.columns)
	}
	return all
}

func (r *released) cells(chosen [][]int) int { return tree.Cells(r.sizes, r.sets(chosen)) }

// build makes a tree that has the chosen sets of columns and probability 0 in forbidden cells.
func (r *released) build(chosen [][]int) *tree.Tree {
	t := tree.Build(r.sizes, r.sets(chosen))
	for _, f := range r.forbidden {
		t.Forbid(f.columns, f.cells)
	}
	return t
}
