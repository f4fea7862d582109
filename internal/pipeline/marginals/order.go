package marginals

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/conclave-dp/conclave/internal/pipeline/marginals/tree"
	"github.com/conclave-dp/conclave/partition"
)

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
