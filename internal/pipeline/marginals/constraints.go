package marginals

import (
	"fmt"
	"math"
	"math/rand/v2"
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

// order is a constraint on the order of two numbers. In cells where drawn values may break it, both numbers have the
// same rank among the values of their cells. So each keeps the distribution in its cell, which rejection would move,
// and they are as far apart as their distributions are. Where the second would still be too small, it is the smallest
// one that is allowed.
type order struct {
	constraint partition.Constraint
	least      func(first float64) float64
	first      int // places in columns
	second     int
	firsts     [][]int // the fine cells of each cell
	seconds    [][]int
	// meeting has the pairs of cells that are drawn by rank, with the share of ranks that meet the constraint.
	meeting map[[2]int]float64
}

const (
	// triedRanks is the number of ranks that are tried in a pair of cells.
	triedRanks = 256
	// leastMeeting is the share of ranks that must meet a constraint; with fewer, values are drawn independently.
	leastMeeting = 0.5
)

// findOrders depends on the schema and the shares of fine cells alone.
func (m *model) findOrders() (all []order) {
	place := map[int]int{}
	for i := range m.columns {
		place[m.columns[i].column] = i
	}
	for _, c := range m.schema.Constraints() {
		first, second, least, ok := c.Order()
		if !ok {
			continue
		}
		firstAt, counted := place[first]
		secondAt, both := place[second]
		if !counted || !both {
			continue // one of them has no cells
		}
		o := order{constraint: c, least: least, first: firstAt, second: secondAt, meeting: map[[2]int]float64{}}
		o.firsts, o.seconds = m.columns[o.first].byCell(), m.columns[o.second].byCell()
		for a := range o.firsts {
			for b := range o.seconds {
				if share := o.meets(m, [2]int{a, b}); share >= leastMeeting {
					o.meeting[[2]int{a, b}] = share
				}
			}
		}
		all = append(all, o)
	}
	return all
}

// byCell returns the fine cells of each cell, in rising order.
func (c *drawn) byCell() [][]int {
	out := make([][]int, slices.Max(c.of)+1)
	for fine, cell := range c.of {
		out[cell] = append(out[cell], fine)
	}
	return out
}

// meets is the share of ranks that meet the constraint, or 0 if all values of the cells meet or break it, or some are
// empty.
func (o *order) meets(m *model, pair [2]int) float64 {
	a, b := o.firsts[pair[0]], o.seconds[pair[1]]
	x, y := &m.columns[o.first], &m.columns[o.second]
	if len(a) == 0 || len(b) == 0 || a[len(a)-1] >= len(x.from) || b[len(b)-1] >= len(y.from) {
		return 0
	}
	row := make([]float64, len(m.schema.Columns))
	breaks := func(first, second float64) bool {
		row[x.column], row[y.column] = first, second
		return o.constraint.Breaks(row)
	}
	worst := breaks(x.between(&o.constraint, a[len(a)-1], 1), y.between(&o.constraint, b[0], 1))
	best := breaks(x.between(&o.constraint, a[0], 0), y.between(&o.constraint, b[len(b)-1], 0))
	if !worst || best {
		return 0
	}
	met := 0
	for i := range triedRanks {
		if !breaks(o.at(m, pair, (float64(i)+0.5)/triedRanks)) {
			met++
		}
	}
	return float64(met) / triedRanks
}

// at returns the values of a rank, from 0 and below 1. Both rise with it.
func (o *order) at(m *model, pair [2]int, rank float64) (first, second float64) {
	first = m.columns[o.first].ranked(o.firsts[pair[0]], rank)
	second = m.columns[o.second].ranked(o.seconds[pair[1]], rank)
	return first, o.lifted(m, pair[1], first, second, false)
}

// lifted is a second value, or a larger one that meets the constraint if its cell has one; far allows other cells. If
// there is none, it is the largest.
func (o *order) lifted(m *model, cell int, first, second float64, far bool) float64 {
	least := o.least(first)
	if !(second < least) { // also if one is empty
		return second
	}
	y := &m.columns[o.second]
	fines := o.seconds[cell]
	_, end := y.span(fines[len(fines)-1])
	if far {
		_, end = y.span(len(y.from) - 1)
	}
	if end = math.Nextafter(end, math.Inf(-1)); y.cells.of.Kind == partition.Integer {
		end = math.Floor(end)
	}
	return max(second, min(least, end))
}

// ranked is the value of a rank among the values of fine cells of a number.
func (c *drawn) ranked(fines []int, rank float64) float64 {
	left, at, part := rank, fines[0], 0.0 // the shares of a cell add up to 1
	for _, fine := range fines {
		if share := float64(c.shares[fine]); share > 0 {
			at, part = fine, min(left/share, math.Nextafter(1, 0))
			if left -= share; left < 0 {
				break
			}
		}
	}
	lo, hi := c.span(at)
	if c.cells.of.Kind == partition.Integer {
		lo, hi = math.Ceil(lo), math.Ceil(hi)
		return lo + math.Floor(part*max(1, hi-lo))
	}
	return c.within(lo+part*(hi-lo), lo, hi)
}

// ranks are those in a pair of cells whose values meet the limits: from, up to and without to.
func (o *order) ranks(m *model, pair [2]int, by map[int]*limits) (from, to float64) {
	return ranksWithin([]*limits{by[o.first], by[o.second]}, func(rank float64) []float64 {
		first, second := o.at(m, pair, rank)
		return []float64{first, second}
	})
}

// ranksWithin returns the ranks whose values meet the limits, nil for none. The values rise with the rank.
func ranksWithin(by []*limits, at func(rank float64) []float64) (from, to float64) {
	// find returns the smallest rank with a property that all larger ones have.
	find := func(has func(values []float64) bool) float64 {
		lo, hi := 0.0, 1.0
		for range 20 {
			if middle := (lo + hi) / 2; has(at(middle)) {
				hi = middle
			} else {
				lo = middle
			}
		}
		return hi
	}
	from = find(func(values []float64) bool {
		for i, l := range by {
			if l != nil && values[i] < l.lo {
				return false
			}
		}
		return true
	})
	to = find(func(values []float64) bool {
		for i, l := range by {
			if l != nil && values[i] >= l.hi {
				return true
			}
		}
		return false
	})
	return from, max(from, to)
}

// chain are orders that share columns, and the places of these.
type chain struct {
	orders []*order
	places []int
}

// chains groups orders.
func chains(orders []order) (all []chain) {
	for i := range orders {
		o := &orders[i]
		c := chain{[]*order{o}, []int{o.first, o.second}}
		all = slices.DeleteFunc(all, func(other chain) bool {
			shares := slices.Contains(other.places, o.first) || slices.Contains(other.places, o.second)
			if shares {
				c.orders, c.places = append(other.orders, c.orders...), append(other.places, c.places...)
			}
			return shares
		})
		slices.Sort(c.places)
		c.places = slices.Compact(c.places)
		all = append(all, c)
	}
	return all
}

// draw replaces the values of rows with cells that are drawn by rank. All columns of a chain then have the same rank.
// cells and values are by column. far lets numbers leave their cells to meet the constraints.
func (c *chain) draw(m *model, cells [][]int32, values [][]float64, by map[int]*limits, far bool, rng *rand.Rand) {
	fines, limited := make([][][]int, len(c.places)), make([]*limits, len(c.places))
	unlimited, row := true, make([]float64, len(c.places))
	for i, place := range c.places {
		fines[i], limited[i] = m.columns[place].byCell(), by[place]
		unlimited = unlimited && limited[i] == nil
	}
	ends := make([][2]int, len(c.orders)) // the positions of each order's columns in places
	for i, o := range c.orders {
		ends[i] = [2]int{slices.Index(c.places, o.first), slices.Index(c.places, o.second)}
	}
	for r := range cells[c.places[0]] {
		if !far && !slices.ContainsFunc(c.orders, func(o *order) bool {
			_, ok := o.meeting[[2]int{int(cells[o.first][r]), int(cells[o.second][r])}]
			return ok
		}) {
			continue
		}
		at := func(rank float64) []float64 {
			for i, place := range c.places {
				if row[i] = values[place][r]; !math.IsNaN(row[i]) {
					row[i] = m.columns[place].ranked(fines[i][cells[place][r]], rank)
				}
			}
			for changed, tries := true, 0; changed && tries < len(c.orders); tries++ {
				changed = false
				for i, o := range c.orders {
					second := &row[ends[i][1]]
					lifted := o.lifted(m, int(cells[o.second][r]), row[ends[i][0]], *second, far)
					changed, *second = changed || lifted > *second, lifted
				}
			}
			return row
		}
		from, to := 0.0, 1.0
		if !unlimited {
			from, to = ranksWithin(limited, at)
		}
		for i, v := range at(from + rng.Float64()*(to-from)) {
			values[c.places[i]][r] = v
		}
	}
}

// factor corrects the factors of limits, which are those of independent values. It returns false if there are none.
func (o *order) factor(m *model, by map[int]*limits) (tree.Factor, bool) {
	if by[o.first] == nil && by[o.second] == nil {
		return tree.Factor{}, false
	}
	shares := func(place int, cells int) []float64 {
		if l := by[place]; l != nil {
			return l.factors(&m.columns[place])
		}
		return slices.Repeat([]float64{1}, cells)
	}
	x, y := shares(o.first, len(o.firsts)), shares(o.second, len(o.seconds))
	times := slices.Repeat([]float64{1}, len(x)*len(y))
	for pair := range o.meeting {
		if independent := x[pair[0]] * y[pair[1]]; independent > 0 {
			from, to := o.ranks(m, pair, by)
			times[o.cell(pair)] = (to - from) / independent
		}
	}
	return tree.Factor{Columns: []int{min(o.first, o.second), max(o.first, o.second)}, By: times}, true
}

// cell is the cell of the joint table of both columns, in which the later one varies fastest.
func (o *order) cell(pair [2]int) int {
	if o.first < o.second {
		return pair[0]*len(o.seconds) + pair[1]
	}
	return pair[1]*len(o.firsts) + pair[0]
}
