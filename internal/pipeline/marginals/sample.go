package marginals

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/pipeline/marginals/tree"
	"github.com/conclave-dp/conclave/partition"
)

// Sample draws rows. It meets conditions on any columns exactly: the tree is conditioned on the remaining
// cells, and values are drawn among those that meet the conditions. Rows that break a constraint of the schema
// are drawn again: the result is the model's distribution, given that no constraint is broken.
func (m *model) Sample(rows int, where []pipeline.Condition, rng *rand.Rand) (*partition.Table, error) {
	limits, err := m.limits(where)
	if err != nil {
		return nil, err
	}
	t := m.tree
	if len(limits) > 0 {
		var factors []tree.Factor
		for i := range m.columns {
			if l := limits[i]; l != nil {
				factors = append(factors, tree.Factor{Columns: []int{i}, By: l.factors(&m.columns[i])})
			}
		}
		for i := range m.orders {
			if f, ok := m.orders[i].factor(m, limits); ok {
				factors = append(factors, f)
			}
		}
		given, possible := t.Given(factors)
		if !possible {
			return nil, fmt.Errorf("%w: the model has none with %v", pipeline.ErrCondition, where)
		}
		t = given
	}
	table := partition.NewTable(m.schema)
	table.Grow(rows)
	tried, found := 0, 0 // since the last check
	far := false         // numbers may leave their cells, rather than that there are no rows
	for left := rows; left > 0; left = rows - table.Len() {
		if tried > drawnNear && len(m.orders) > 0 && !far {
			tried, found, far = 0, 0, true
			continue
		}
		if tried > mostDrawn {
			return nil, &tooRare{tried, found, where}
		}
		n := min(max(left, tried), atOnce)
		before := table.Len()
		if err := m.fill(table, left, n, t, limits, far, rng); err != nil {
			return nil, err
		}
		tried, found = tried+n, found+table.Len()-before
		if found > leastFound {
			tried, found = 0, 0
		}
	}
	return table, nil
}

// Rows that break a constraint are drawn again. Cells in which all rows break one have probability 0; in other
// cells some rows may. Drawing ends if mostDrawn rows gave at most leastFound. Rows are drawn in batches of
// atOnce.
const (
	mostDrawn  = 1 << 22
	leastFound = 100
	// drawnNear is after how many rows numbers may leave their cells to be in the order of a constraint.
	drawnNear = 1 << 16
	atOnce    = 1 << 17
)

// tooRare is the [pipeline.ErrCondition] of rows that are possible, but so rare that drawing them takes too long.
type tooRare struct {
	tried, found int
	where        []pipeline.Condition
}

func (e *tooRare) Error() string {
	with, fixes := "", []string(nil)
	if e.found > 0 {
		fixes = append(fixes, "ask for fewer rows")
	}
	if len(e.where) > 0 {
		with, fixes = fmt.Sprintf(" with %v", e.where), append(fixes, "ask for a wider condition")
	}
	if len(fixes) == 0 {
		fixes = []string{"train with a larger budget"}
	}
	return fmt.Sprintf("fewer than one in %d rows of the model%s meets the schema's constraints; %s",
		e.tried/(e.found+1), with, strings.Join(fixes, ", or "))
}

func (*tooRare) Is(target error) bool { return target == pipeline.ErrCondition }

// fill adds at most `most` drawn rows to a table. They break no constraint.
func (m *model) fill(
	table *partition.Table, most, rows int, t *tree.Tree, limits map[int]*limits, far bool, rng *rand.Rand,
) error {
	cells := t.Draw(rows, rng)
	values := make([][]float64, len(m.columns))
	for i := range m.columns {
		values[i] = m.columns[i].values(cells[i], limits[i], rng)
	}
	for _, c := range chains(m.orders) {
		c.draw(m, cells, values, limits, far, rng)
	}
	row := slices.Repeat([]float64{math.NaN()}, len(m.schema.Columns)) // a column without cells stays empty
	for r := range rows {
		unit := ""
		if u := m.schema.UnitColumn(); u >= 0 {
			unit = m.schema.Columns[u].MadeUpUnit(table.Len())
		}
		for i, c := range m.columns {
			row[c.column] = values[i][r]
		}
		if m.schema.Broken(row) > 0 || m.outside(row, limits) {
			continue
		}
		if most--; most < 0 {
			break
		}
		if err := table.Append(row, unit); err != nil {
			return err
		}
	}
	return nil
}

// outside tells whether a number is not within its limits. One that is drawn by rank may be, if its range of ranks is
// smaller than the precision of ranks.
func (m *model) outside(row []float64, limits map[int]*limits) bool {
	for i := range m.orders {
		for _, place := range []int{m.orders[i].first, m.orders[i].second} {
			if l, v := limits[place], row[m.columns[place].column]; l != nil && (v < l.lo || v >= l.hi) {
				return true
			}
		}
	}
	return false
}

// limits are the conditions on a column: the share of each fine cell's values that meets them, and whether a
// value meets them.
type limits struct {
	share []float64
	meets []func(float64) bool
	// A number is at least lo and below hi.
	lo, hi float64
}

func (m *model) limits(where []pipeline.Condition) (map[int]*limits, error) {
	all := map[int]*limits{}
	for _, w := range where {
		at, meets, err := w.On(m.schema)
		if err != nil {
			return nil, err
		}
		for i := range m.columns {
			c := &m.columns[i]
			if c.column != at {
				continue
			}
			l := all[i]
			if l == nil {
				l = &limits{share: make([]float64, len(c.of)), lo: math.Inf(-1), hi: math.Inf(1)}
				all[i] = l
			}
			l.meets = append(l.meets, meets)
			if isNumber(c.cells.of) {
				value, _ := c.cells.of.ParseValue(w.Value)
				l.narrow(c.cells.of, w.Relation, value)
			}
		}
	}
	for i, l := range all {
		for fine := range l.share {
			l.share[fine] = l.shareOf(&m.columns[i], fine)
		}
	}
	return all, nil
}

// narrow applies a condition on a number to the bounds.
func (l *limits) narrow(c *partition.Column, relation string, v float64) {
	if math.IsNaN(v) { // only an empty value meets it
		l.hi = math.Inf(-1)
		return
	}
	switch relation {
	case "<":
		l.hi = min(l.hi, v)
	case "<=":
		l.hi = min(l.hi, after(c, v))
	case ">":
		l.lo = max(l.lo, after(c, v))
	case ">=":
		l.lo = max(l.lo, v)
	default:
		l.lo, l.hi = max(l.lo, v), min(l.hi, after(c, v))
	}
}

// shareOf returns the share of a fine cell's values that meets all conditions.
func (l *limits) shareOf(c *drawn, fine int) float64 {
	if !isNumber(c.cells.of) || fine >= len(c.from) {
		v := float64(fine)
		if c.cells.of.Nullable && fine == len(c.of)-1 {
			v = math.NaN()
		}
		for _, meets := range l.meets {
			if !meets(v) {
				return 0
			}
		}
		return 1
	}
	lo, hi := c.span(fine)
	from, to := max(lo, l.lo), min(hi, l.hi)
	if to <= from {
		return 0
	}
	if c.cells.of.Kind == partition.Integer {
		return (math.Ceil(to) - math.Ceil(from)) / (math.Ceil(hi) - math.Ceil(lo))
	}
	return (to - from) / (hi - lo)
}

// factors returns the factors of the cells.
func (l *limits) factors(c *drawn) []float64 {
	n := 0
	for _, cell := range c.of {
		n = max(n, cell+1)
	}
	out := make([]float64, n)
	for fine, cell := range c.of {
		out[cell] += float64(c.shares[fine]) * l.share[fine]
	}
	return out
}

// values draws values for rows from their cells, within the limits, nil for none.
func (c *drawn) values(rows []int32, l *limits, rng *rand.Rand) []float64 {
	fineOf := c.byCell()
	weight := func(fine int) float64 {
		if l != nil {
			return float64(c.shares[fine]) * l.share[fine]
		}
		return float64(c.shares[fine])
	}
	sums := make([]float64, len(fineOf))
	for cell, fines := range fineOf {
		for _, fine := range fines {
			sums[cell] += weight(fine)
		}
	}
	out := make([]float64, len(rows))
	for r, cell := range rows {
		fines := fineOf[cell]
		u, at := rng.Float64()*sums[cell], -1
		for _, fine := range fines {
			w := weight(fine)
			if w == 0 {
				continue
			}
			at = fine
			if u -= w; u < 0 {
				break
			}
		}
		if at < 0 { // all shares underflowed
			at = fines[0]
		}
		out[r] = c.value(at, l, rng)
	}
	return out
}

// value draws one of a fine cell's values.
func (c *drawn) value(fine int, l *limits, rng *rand.Rand) float64 {
	if !isNumber(c.cells.of) || fine >= len(c.from) {
		if c.cells.of.Nullable && fine == len(c.of)-1 {
			return math.NaN()
		}
		return float64(fine)
	}
	lo, hi := c.span(fine)
	if l != nil {
		lo, hi = max(lo, l.lo), min(hi, l.hi)
	}
	if c.cells.of.Kind == partition.Integer {
		lo, hi = math.Ceil(lo), math.Ceil(hi)
		return lo + float64(rng.Int64N(int64(max(1, hi-lo))))
	}
	return c.within(lo+rng.Float64()*(hi-lo), lo, hi)
}

// within returns a value from lo and below hi, rounded to a precision that fits the range if it stays between them.
func (c *drawn) within(v, lo, hi float64) float64 {
	if v >= hi { // rounding reached the end, half of the time for a cell of one value
		v = lo
	}
	if rounded := c.rounded(v); rounded >= lo && rounded < hi {
		return rounded
	}
	return v
}

// rounded rounds to six digits of the column's range, or of 1 + v on a log scale, but never coarser than to a
// whole number.
func (c *drawn) rounded(v float64) float64 {
	lo, hi := c.cells.of.Range()
	worth := hi - lo
	if c.cells.of.Scale == partition.Log {
		worth = 1 + v
	}
	power := min(math.Floor(math.Log10(worth))-5, 0)
	if power < -300 {
		return v
	}
	unit := math.Pow10(int(-power))
	return math.Round(v*unit) / unit
}
