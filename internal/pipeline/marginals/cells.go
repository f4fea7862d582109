package marginals

import (
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/conclave-dp/conclave/partition"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// cells say how the values of a column map to cells.
type cells struct {
	place  int // among those of [learnedColumns]
	column int // in the schema
	of     *partition.Column
	// from are the lower ends of a number's cells, in rising order. Other columns have one cell for each value.
	from []float64
	// groups are the cells of the categories, the empty one last; nil if each category has its own cell.
	groups []uint32
	n      int
	// sign marks a column of two cells that counts as -1 or 1. It has no cells in tables.
	sign bool
	// constrained marks a column that appears in constraints of the schema.
	constrained bool
}

func isNumber(c *partition.Column) bool {
	return c.Kind == partition.Continuous || c.Kind == partition.Integer
}

// plain returns the cells of a column before grouping. from are the lower ends of a number's cells.
func plain(schema *partition.Schema, column int, from []float64) cells {
	c := cells{place: column, column: column, of: &schema.Columns[column], from: from}
	for i := range column {
		if !schema.Columns[i].HasCell() {
			c.place--
		}
	}
	for _, of := range schema.Constraints() {
		c.constrained = c.constrained || slices.Contains(of.Columns, column)
	}
	switch {
	case isNumber(c.of):
		c.n = len(from)
	case c.of.Kind == partition.Categorical:
		c.n = len(c.of.Categories)
	default:
		c.n = 2
	}
	if c.of.Nullable {
		c.n++
	}
	return c
}

// learnedColumns returns the columns of a schema without the unit and identifiers.
func learnedColumns(schema *partition.Schema) (at []int) {
	for i := range schema.Columns {
		if schema.Columns[i].HasCell() {
			at = append(at, i)
		}
	}
	return at
}

// grouped returns the plain cells in groups.
func (c cells) grouped(groups []uint32) cells {
	c.groups = groups
	c.n = int(slices.Max(groups)) + 1
	return c
}

// size is the number of cells in a table of the column.
func (c *cells) size() int {
	if c.sign {
		return 1
	}
	return c.n
}

// cell returns the cell of a value. NaN is an empty value.
func (c *cells) cell(v float64) int {
	at := c.plainCell(v)
	if c.groups != nil {
		at = int(c.groups[at])
	}
	return at
}

func (c *cells) plainCell(v float64) int {
	switch {
	case math.IsNaN(v) && isNumber(c.of):
		return len(c.from)
	case math.IsNaN(v) && c.of.Kind == partition.Categorical:
		return len(c.of.Categories)
	case math.IsNaN(v):
		return 2
	case isNumber(c.of):
		return max(0, sort.Search(len(c.from), func(i int) bool { return c.from[i] > v })-1)
	default:
		return int(v)
	}
}

// message is the column on the wire.
func (c *cells) message() *conclavev1.CellColumn {
	return &conclavev1.CellColumn{Column: uint32(c.place), From: c.from, Groups: c.groups, Sign: c.sign}
}

// maxCells bounds the cells of a column: with more, the counts would be mostly noise.
const maxCells = 1 << 16

// readCells checks a column of a question against the schema.
func readCells(schema *partition.Schema, m *conclavev1.CellColumn) (cells, error) {
	learned := learnedColumns(schema)
	if int(m.GetColumn()) >= len(learned) {
		return cells{}, fmt.Errorf("column %d of %d; use the same schema at both sides", m.GetColumn(), len(learned))
	}
	at := learned[m.GetColumn()]
	column := &schema.Columns[at]
	wrong := func(what string) (cells, error) {
		return cells{}, fmt.Errorf("the cells of column %q %s", column.Name, what)
	}
	from := m.GetFrom()
	if isNumber(column) != (len(from) > 0) || len(from) > maxCells {
		return wrong(fmt.Sprintf("have %d lower ends; a number has 1 to %d, another column none", len(from), maxCells))
	}
	for i, f := range from {
		if math.IsNaN(f) || math.IsInf(f, 0) || i > 0 && f <= from[i-1] {
			return wrong("do not rise")
		}
	}
	c := plain(schema, at, from)
	if groups := m.GetGroups(); len(groups) > 0 {
		if len(groups) != c.n {
			return wrong(fmt.Sprintf("have %d groups for %d values", len(groups), c.n))
		}
		for _, g := range groups {
			if int(g) >= c.n {
				return wrong("have a group beyond their number")
			}
		}
		c = c.grouped(groups)
	}
	if c.sign = m.GetSign(); c.sign && c.n != 2 {
		return wrong(fmt.Sprintf("are %d; a sign has two", c.n))
	}
	return c, nil
}

// fineCells returns the cells of a number in the first sum: one for each value if there are few, else parts of
// the range on the schema's scale. Some values have cells of their own: the ends of the range, 0, at which many
// columns have most of their records, and the numbers that the schema names.
func fineCells(c *partition.Column, most int) []float64 {
	lo, hi := c.Range()
	if c.Kind == partition.Integer && hi-lo < float64(most) {
		var from []float64
		for v := lo; v <= hi; v++ {
			from = append(from, v)
		}
		return from
	}
	from := parts(c, most)
	for _, v := range append([]float64{lo, 0, hi}, c.Points...) {
		if v < lo || v > hi {
			continue
		}
		from = append(from, v)
		if next := after(c, v); next <= hi {
			from = append(from, next)
		}
	}
	slices.Sort(from)
	return slices.Compact(from)
}

// parts returns the lower ends of at most `most` parts of a number's range. They are short decimals, like
// measurements. A frequent value is then the first of its part, and drawn rows fall on the right side of the
// thresholds that people use.
func parts(c *partition.Column, most int) (from []float64) {
	lo, hi := c.Range()
	add := func(v float64) {
		if v >= lo && v <= hi {
			from = append(from, v)
		}
	}
	if c.Scale != partition.Log {
		digits := int(math.Floor(math.Log10((hi - lo) / float64(most))))
		var multiple, step float64
		for _, multiple = range []float64{1, 2, 5, 10} {
			if step = decimal(multiple, digits); (hi-lo)/step <= float64(most) {
				break
			}
		}
		first := math.Floor(lo / step)
		for i := range most + 2 { // the first part may begin below the range, and both ends may begin a part
			add(decimal((first+float64(i))*multiple, digits))
		}
		return from
	}
	least, ratio := math.Log1p(lo), (math.Log1p(hi)-math.Log1p(lo))/float64(most)
	for i := range most {
		v := math.Expm1(least + ratio*float64(i))
		if v > 0 {
			digits := int(math.Floor(math.Log10(v))) - 1
			v = decimal(math.Round(v/math.Pow10(digits)), digits)
		}
		if c.Kind == partition.Integer {
			v = math.Ceil(v)
		}
		add(v)
	}
	return from
}

// decimal is n times a power of ten, exactly the float64 that parsing its decimal digits gives.
func decimal(n float64, power int) float64 {
	if power < 0 {
		return n / math.Pow10(-power)
	}
	return n * math.Pow10(power)
}

// named tells whether a cell of a number begins at a number that the schema names, or right after one.
func (c *cells) named(cell int) bool {
	return slices.ContainsFunc(c.of.Points, func(v float64) bool {
		return c.from[cell] == v || c.from[cell] == after(c.of, v)
	})
}

// after is the next value of a number.
func after(c *partition.Column, v float64) float64 {
	if c.Kind == partition.Integer {
		return v + 1
	}
	return math.Nextafter(v, math.Inf(1))
}

// span returns the range of a number's cell: from lo up to hi, where the next cell begins. The last cell's hi
// is beyond the range.
func (c *cells) span(cell int) (lo, hi float64) {
	if cell+1 < len(c.from) {
		return c.from[cell], c.from[cell+1]
	}
	_, most := c.of.Range()
	return c.from[cell], after(c.of, max(most, c.from[cell]))
}
