package marginals

import (
	"math"
	"slices"
)

// A wide table has too many columns for tables of all pairs. Its second sum asks how each number depends on the
// label, by two signs: whether a value is in the upper half, and whether it is in an outer fourth. Its third
// sum asks for the signs of all pairs. In the model all columns depend on a hidden one; see [ties].

const (
	// eighths is the number of cells of a number in a wide table.
	eighths = 8
	// outer is the weight of the sign of the outer cells, relative to that of the halves.
	outer = 0.35
	// onWideColumns is the share of the squared weight of the second sum that is on columns by themselves. The
	// third sum has no information on them.
	onWideColumns = 0.65
	// maxHung bounds the cells of the tables that depend on the hidden column.
	maxHung = 1 << 24
)

// isWide tells whether the table is wide. That follows from the schema and the options, which are public.
func (t *training) isWide(widest []cells) bool {
	size, hung := 0, 0
	for i, c := range widest {
		hung += min(c.n, scoutCells)
		for _, other := range widest[i+1:] {
			size += c.n * other.n
		}
	}
	tied := len(t.tied(widest))
	return size > maxEntries/2 && tied > 2 && pairsAmong(tied) <= maxEntries/2 &&
		hung*max(points, leastPoints*t.Classes) <= maxHung
}

// tied returns the places of the columns that depend on the hidden one: all with more than one cell except the
// label and columns of constraints, which need tables of their own.
func (t *training) tied(columns []cells) (places []int) {
	label := t.labelPlace()
	for i, c := range columns {
		if i != label && !c.constrained && c.n > 1 {
			places = append(places, i)
		}
	}
	return places
}

// halved returns the tied columns that the second sum asks for by signs.
func (t *training) halved(columns []cells) (places []int) {
	if t.labelPlace() < 0 {
		return nil
	}
	return slices.DeleteFunc(t.tied(columns), func(place int) bool { return !isNumber(columns[place].of) })
}

// signs are the signs of a column: whether a value is above the middle, and whether it is in an outer fourth.
// With few cells the second may be constant, and is then no sign. An empty value is above the middle, and
// outside.
type signs struct {
	above, outside []bool // by cell
}

// signsOf returns the signs of a column with these numbers of records in its cells.
func signsOf(c *cells, records []float64) (s signs) {
	all, below, middle, least := sumOf(records), 0.0, 0, math.Inf(1)
	for i := 1; i < c.n; i++ {
		below += records[i-1]
		if off := math.Abs(below - all/2); off < least {
			middle, least = i, off
		}
	}
	below = 0
	for i := range c.n {
		at := below + records[i]/2
		empty := isNumber(c.of) && i == len(c.from)
		s.above, s.outside = append(s.above, i >= middle), append(s.outside, empty || at < all/4 || at > all*3/4)
		below += records[i]
	}
	return s
}

// signed returns the column as a sign that is 1 in the given cells.
func (c cells) signed(in []bool) cells {
	groups := make([]uint32, len(in))
	if c.groups != nil {
		groups = make([]uint32, len(c.groups))
	}
	for v := range groups {
		cell := v
		if c.groups != nil {
			cell = int(c.groups[v])
		}
		if in[cell] {
			groups[v] = 1
		}
	}
	c = c.grouped(groups)
	c.sign = true
	return c
}

// isSign tells whether the sign differs between cells.
func isSign(in []bool) bool { return slices.Contains(in, true) && slices.Contains(in, false) }

// contrast is a table of the second sum: how a sign depends on the label.
type contrast struct {
	place int
	in    []bool // the cells where it is 1
	// first and second are the columns of the question.
	first, second int
	weight        float64
}

// contrasts adds the signs of numbers to the columns of the second question. A label of two classes is a sign
// as well, which halves the noise. For a label of more classes, each class has the sum of its records' signs.
func (t *training) contrasts(columns []cells, of []signs) (with []cells, all []contrast) {
	with = slices.Clone(columns)
	label := t.labelPlace()
	if label >= 0 && columns[label].n == 2 {
		label = len(with)
		with = append(with, columns[t.labelPlace()].signed([]bool{false, true}))
	}
	for _, place := range t.halved(columns) {
		for i, in := range [][]bool{of[place].above, of[place].outside} {
			if isSign(in) {
				all = append(all, contrast{place, in, label, len(with), []float64{1, outer}[i]})
				with = append(with, columns[place].signed(in))
			}
		}
	}
	return with, all
}

// signsQuestion asks for the signs of all pairs of columns.
func (t *training) signsQuestion(columns []cells, of []signs, sigma float64) (*asked, error) {
	a := &asked{}
	for _, place := range t.tied(columns) {
		a.columns = append(a.columns, columns[place].signed(of[place].above))
	}
	largest, err := largestBound(sigma)
	if err != nil {
		return nil, err
	}
	a.addTogether(max(1, int64(largest/math.Sqrt(float64(pairsAmong(len(a.columns)))))))
	return a, nil
}

// atLeastTwo splits a column that has one cell, since it would have no sign.
func (c *fineColumn) atLeastTwo(coarse cells, of []int) (cells, []int) {
	if coarse.n > 1 || c.n < 2 {
		return coarse, of
	}
	if !isNumber(c.of) || len(c.from) < 2 {
		return c.all()
	}
	middle := len(c.from) / 2
	coarse = c.cells
	coarse.from, coarse.n = []float64{c.from[0], c.from[middle]}, c.n-len(c.from)+2
	for f := range of {
		of[f] = min(f/middle, 1)
		if f >= len(c.from) {
			of[f] = 2
		}
	}
	return coarse, of
}
