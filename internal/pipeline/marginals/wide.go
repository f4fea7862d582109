package marginals

import (
	"math"
	"slices"
)

// A wide table has too many columns for tables of all pairs. Its second sum asks how each number goes with
// the label by two signs: whether a value is in the upper half, and whether it is in an outer fourth.
// Its third sum asks for the signs of all pairs. In the model all columns hang on a hidden one; see [ties].

const (
	// eighths is how many cells a number of a wide table has.
	eighths = 8
	// outer is the weight of the sign of the outer cells beside that of the halves.
	outer = 0.35
	// onWideColumns is the share of the squared weight of the second sum that is on columns by themselves. The third
	// tells nothing of them.
	onWideColumns = 0.65
	// maxHung bounds the cells of the tables that hang on the hidden column.
	maxHung = 1 << 24
)

// isWide says whether the table is wide. That follows from the schema and the options, which are public.
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

// tied are the places of the columns that hang on the hidden one: all that may differ but the label and those
// that constraints are about, which need tables of their own.
func (t *training) tied(columns []cells) (places []int) {
	label := t.labelPlace()
	for i, c := range columns {
		if i != label && !c.constrained && c.n > 1 {
			places = append(places, i)
		}
	}
	return places
}

// halved are those of them that the second sum asks for by signs.
func (t *training) halved(columns []cells) (places []int) {
	if t.labelPlace() < 0 {
		return nil
	}
	return slices.DeleteFunc(t.tied(columns), func(place int) bool { return !isNumber(columns[place].of) })
}

// signs are those of a column: whether a value is above the middle, and whether it is in an outer fourth. The
// latter may be no sign, where cells are few. What is empty is above all values, and outside.
type signs struct {
	above, outside []bool // by cell
}

// signsOf are those of a column with so many records in its cells.
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

// signed is the column as a sign that is 1 in some of its cells.
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

// isSign says that it differs between cells.
func isSign(in []bool) bool { return slices.Contains(in, true) && slices.Contains(in, false) }

// contrast is a table of the second sum: how a sign goes with the label.
type contrast struct {
	place int
	in    []bool // the cells where it is 1
	// first and second are the columns of the question.
	first, second int
	weight        float64
}

// contrasts adds the signs of numbers to the columns of the second question. A label of two classes is a sign
// there too, which halves the noise; of a larger one each class has the sum of its records' signs.
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

// atLeastTwo parts a column whose cells are one: that has no sign.
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
