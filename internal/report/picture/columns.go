package picture

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/conclave-dp/conclave/internal/evaluate"
	"github.com/conclave-dp/conclave/internal/report/text"
	"github.com/conclave-dp/conclave/partition"
)

const (
	histogramBins  = 24
	shownCategory  = 10    // categories with a bar of their own; the rest share one
	trimmedPerTail = 0.005 // share of the values that may lie beyond each end of a histogram
)

// Column is what the page shows of one column: its distribution in the synthetic rows and, if Real is true, in the
// real test rows. The real part is computed without noise: NOT PRIVATE.
type Column struct {
	Name string
	Kind partition.ColumnKind // in the schema
	Doc  string
	Real bool // the real parts of Bars, MissingReal and Score are given

	Bars       []Bar // shares of the values that are not empty
	Horizontal bool  // bars are categories with names, not a range of numbers

	Mean        float64 // of numbers, over the synthetic rows; NaN when all are empty
	Missing     float64 // share of empty cells, 0 to 1
	MissingReal float64
	Nullable    bool
	Measure     string // "KSComplement" or "TVComplement", empty without real rows
	Score       float64
	limits
}

// limits are the limits of a histogram of numbers.
type limits struct {
	of               *partition.Column // nil for plain numbers
	lowest, beyond   float64
	cutLow, cutAbove bool // values lie beyond them, in the first and the last bar
}

// Bar is one bar: a category, or a stretch of numbers.
type Bar struct {
	Label           string
	Synthetic, Real float64 // shares, 0 to 1
	Rest            bool    // many categories added up
}

// Columns summarizes every column that holds data. real may be nil; results from it are marked. Weights of the
// synthetic rows count. A table without rows gives columns without bars.
func Columns(schema *partition.Schema, synthetic, real *partition.Table) ([]Column, error) {
	if synthetic == nil {
		return nil, fmt.Errorf("columns: there is no synthetic table")
	}
	if n := len(synthetic.Schema().Columns); n != len(schema.Columns) {
		return nil, fmt.Errorf("columns: the schema has %d columns, the synthetic table %d", len(schema.Columns), n)
	}
	scores := map[string]evaluate.ColumnQuality{}
	if real != nil && real.Len() > 0 && synthetic.Len() > 0 {
		compared, _, err := evaluate.CompareColumns(real, synthetic, nil)
		if err != nil {
			return nil, fmt.Errorf("columns: %w", err)
		}
		for _, c := range compared {
			scores[c.Column] = c
		}
	}
	var list []Column
	for j := range schema.Columns {
		column := &schema.Columns[j]
		if column.Role != partition.RoleNone || column.Kind == partition.Text {
			continue
		}
		summary := Column{Name: column.Name, Kind: column.Declared(), Doc: column.Doc, Nullable: column.Nullable}
		summary.of = column
		var s, r []cell
		s, summary.Missing = cells(synthetic, j)
		if shape, ok := scores[column.Name]; ok && shape.Score != nil {
			summary.Real = true
			summary.Measure, summary.Score = shape.Measure, *shape.Score
			r, summary.MissingReal = cells(real, j)
		}
		if column.Kind == partition.Categorical || column.Kind == partition.Binary {
			summary.Horizontal = true
			summary.Bars = categoryBars(column, s, r)
		} else {
			summary.Mean = mean(s)
			summary.addHistogram(s, r)
		}
		list = append(list, summary)
	}
	return list, nil
}

// cell is a value that is not empty, and its share of all such values by weight.
type cell struct{ value, share float64 }

// cells gives the values of column j that weigh something, and the share of empty
// cells, both by the table's weights.
func cells(t *partition.Table, j int) (values []cell, missing float64) {
	weights := t.Weights()
	largest := 1.0
	if weights != nil {
		largest = slices.Max(weights)
	}
	var present, all float64
	for i := range t.Len() {
		w := 1.0
		if weights != nil {
			w = weights[i] / largest // so that their sum is finite
		}
		all += w
		if v := t.Cells(i)[j]; !math.IsNaN(v) && w > 0 {
			present += w
			values = append(values, cell{v, w})
		}
	}
	for i := range values {
		values[i].share /= present
	}
	if all > 0 {
		missing = 1 - present/all
	}
	return values, missing
}

func mean(values []cell) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sum := 0.0
	for _, v := range values {
		sum += v.share * v.value
	}
	return sum
}

// categoryBars gives the most frequent synthetic categories, the others added
// up in a last bar. Up to shownCategory categories keep the schema's order.
func categoryBars(column *partition.Column, synthetic, real []cell) []Bar {
	names := column.Categories
	if column.Kind == partition.Binary {
		names = []string{"0", "1"}
	}
	bars := make([]Bar, len(names))
	for k, name := range names {
		bars[k].Label = name
		if k < len(column.Names) && column.Names[k] != "" {
			bars[k].Label = column.Names[k]
		}
	}
	for _, v := range synthetic {
		bars[int(v.value)].Synthetic += v.share
	}
	for _, v := range real {
		bars[int(v.value)].Real += v.share
	}
	if len(bars) <= shownCategory+1 {
		return bars
	}
	slices.SortStableFunc(bars, func(a, b Bar) int { return cmp.Compare(b.Synthetic, a.Synthetic) })
	rest := Bar{Rest: true, Label: fmt.Sprintf("%d others", len(bars)-shownCategory)}
	for _, b := range bars[shownCategory:] {
		rest.Synthetic += b.Synthetic
		rest.Real += b.Real
	}
	return append(bars[:shownCategory:shownCategory], rest)
}

// addHistogram fills Bars over the range that contains nearly all values, since a column with long tails would
// otherwise be one bar. Values beyond an end count in the bar at that end.
func (c *Column) addHistogram(synthetic, real []cell) {
	if len(synthetic) == 0 {
		return
	}
	low, high := trimmedRange(synthetic)
	if len(real) > 0 {
		l, h := trimmedRange(real)
		low, high = math.Min(low, l), math.Max(high, h)
	}
	bins := histogramBins
	if c.whole() {
		// Every bar covers the same number of integers.
		width := math.Ceil((high - low + 1) / histogramBins)
		bins = int(math.Ceil((high - low + 1) / width))
		low, high = low-0.5, low-0.5+width*float64(bins)
	} else if high == low {
		bins, low, high = 1, low-0.5, high+0.5
	}
	c.lowest, c.beyond = low, high
	c.Bars = make([]Bar, bins)
	step := (high - low) / float64(bins)
	at := func(v float64) int {
		c.cutLow = c.cutLow || v < low
		c.cutAbove = c.cutAbove || v > high
		return int(math.Max(0, math.Min(float64(bins-1), math.Floor((v-low)/step))))
	}
	for k := range c.Bars {
		from, to := low+float64(k)*step, low+float64(k+1)*step
		if c.whole() {
			from, to = from+0.5, to-0.5
		}
		c.Bars[k].Label = figure(c.of, from)
		if from != to {
			c.Bars[k].Label += " to " + figure(c.of, to)
		}
	}
	for _, v := range synthetic {
		c.Bars[at(v.value)].Synthetic += v.share
	}
	for _, v := range real {
		c.Bars[at(v.value)].Real += v.share
	}
}

// trimmedRange is the range of all but the outermost values.
func trimmedRange(values []cell) (low, high float64) {
	sorted := slices.Clone(values)
	slices.SortFunc(sorted, func(a, b cell) int { return cmp.Compare(a.value, b.value) })
	// Sums of shares are off by rounding, which must not move an end.
	const beyond = trimmedPerTail * (1 + 1e-9)
	first, last := 0, len(sorted)-1
	for sum := sorted[first].share; sum <= beyond && first < last; first++ {
		sum += sorted[first+1].share
	}
	for sum := sorted[last].share; sum <= beyond && last > first; last-- {
		sum += sorted[last-1].share
	}
	return sorted[first].value, sorted[last].value
}

// ends labels the two ends of the histogram's axis.
func (c Column) ends() (low, high string) {
	if len(c.Bars) == 0 {
		return "", ""
	}
	from, to := c.lowest, c.beyond
	if c.whole() {
		from, to = from+0.5, to-0.5
	}
	low, high = figure(c.of, from), figure(c.of, to)
	if c.cutLow {
		low = "≤ " + low
	}
	if c.cutAbove {
		high = "≥ " + high
	}
	return low, high
}

// MeanText is the displayed Mean.
func (c Column) MeanText() string { return figure(c.of, c.Mean) }

// whole says whether values are whole numbers.
func (c *Column) whole() bool { return c.Kind == partition.Integer || isDate(c.of) }

func isDate(c *partition.Column) bool {
	return c != nil && (c.Declared() == partition.Date || c.Declared() == partition.Datetime)
}

// figure formats a number of a column, which may be nil, or the date for which it stands.
func figure(c *partition.Column, v float64) string {
	if isDate(c) {
		return c.CellText(math.Round(max(c.Lower, min(v, c.Upper))))
	}
	return text.Figure(v)
}

// Check refuses bars that are no shares.
func (c Column) Check() error {
	for _, b := range c.Bars {
		if !text.Finite(b.Synthetic) || !text.Finite(b.Real) || b.Synthetic < 0 || b.Real < 0 {
			return fmt.Errorf("column %s: a bar is not a share", c.Name)
		}
	}
	return nil
}
