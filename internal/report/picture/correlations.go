package picture

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/conclave-dp/conclave/internal/evaluate"
	"github.com/conclave-dp/conclave/partition"
)

// Correlations are the correlation coefficients of a table's columns of numbers.
type Correlations struct {
	Columns []string
	// Values[i][j] is the correlation of columns i and j < i; NaN if there is none.
	Values [][]float64
}

// correlatedRows bounds the rows that are looked at: more change no colour.
const correlatedRows = 20_000

// NewCorrelations computes Pearson's correlations of the numbers and of the binary
// columns, 0 or 1, of a synthetic table; rows with an empty cell in a pair are
// left out of that pair. Weights of the rows count.
func NewCorrelations(synthetic *partition.Table) *Correlations {
	c := &Correlations{}
	rows := min(synthetic.Len(), correlatedRows)
	var data [][]float64
	weights := synthetic.Weights()
	for j, column := range synthetic.Schema().Columns {
		if column.Role != partition.RoleNone || column.Kind == partition.Categorical || column.Kind == partition.Text {
			continue
		}
		values := make([]float64, rows)
		for i := range rows {
			values[i] = synthetic.Cells(i)[j]
		}
		row := make([]float64, len(data))
		for k, other := range data {
			row[k] = pearson(values, other, weights)
		}
		c.Columns, c.Values, data = append(c.Columns, column.Name), append(c.Values, row), append(data, values)
	}
	return c
}

// pearson is the correlation of two columns, NaN if one of them is constant. Without weights each value counts 1;
// there may be more weights than values.
func pearson(a, b, weights []float64) float64 {
	var n, meanA, meanB, squareA, squareB, product float64
	for i, x := range a {
		y := b[i]
		if math.IsNaN(x) || math.IsNaN(y) {
			continue
		}
		w := 1.0
		if weights != nil {
			w = weights[i]
		}
		if w == 0 {
			continue
		}
		n += w
		dx, dy := x-meanA, y-meanB
		meanA += dx * (w / n)
		meanB += dy * (w / n)
		squareA += w * dx * (x - meanA)
		squareB += w * dy * (y - meanB)
		product += w * dx * (y - meanB)
	}
	if squareA <= 0 || squareB <= 0 {
		return math.NaN()
	}
	return math.Max(-1, math.Min(1, product/math.Sqrt(squareA*squareB)))
}

// Check refuses values that are no correlations.
func (c *Correlations) Check() error {
	if c == nil {
		return nil
	}
	if len(c.Values) != len(c.Columns) {
		return fmt.Errorf("correlations: %d rows for %d columns", len(c.Values), len(c.Columns))
	}
	for i, row := range c.Values {
		if len(row) != i {
			return fmt.Errorf("correlations: row %d has %d values", i, len(row))
		}
		for _, v := range row {
			if math.Abs(v) > 1 {
				return fmt.Errorf("correlations: %v of column %s is not between -1 and 1", v, c.Columns[i])
			}
		}
	}
	return nil
}

// at gives the value of two columns, in any order.
func (c *Correlations) at(i, j int) float64 {
	if i < j {
		i, j = j, i
	}
	return c.Values[i][j]
}

// pairCorrelations gathers the correlations of real and synthetic rows from an
// evaluation; nil when it has none.
func pairCorrelations(e *evaluate.Evaluation) (real, synthetic *Correlations) {
	if e == nil {
		return nil, nil
	}
	real, synthetic = &Correlations{}, &Correlations{}
	at := map[string]int{}
	for _, p := range e.Pairs {
		if p.Real == nil || p.Synthetic == nil {
			continue
		}
		for _, name := range p.Columns {
			if _, ok := at[name]; ok {
				continue
			}
			n := len(real.Columns)
			at[name] = n
			for _, c := range []*Correlations{real, synthetic} {
				c.Columns = append(c.Columns, name)
				c.Values = append(c.Values, slices.Repeat([]float64{math.NaN()}, n))
			}
		}
		i, j := at[p.Columns[0]], at[p.Columns[1]]
		if i == j {
			continue
		}
		if i < j {
			i, j = j, i
		}
		real.Values[i][j], synthetic.Values[i][j] = *p.Real, *p.Synthetic
	}
	if len(real.Columns) == 0 {
		return nil, nil
	}
	return real, synthetic
}

// minus is the difference of two tables' correlations of the same columns.
func (c *Correlations) minus(o *Correlations) *Correlations {
	d := &Correlations{Columns: c.Columns}
	for i, row := range c.Values {
		difference := make([]float64, len(row))
		for j, v := range row {
			difference[j] = v - o.Values[i][j]
		}
		d.Values = append(d.Values, difference)
	}
	return d
}

func (c *Correlations) keep(columns []int) *Correlations {
	k := &Correlations{}
	for a, i := range columns {
		row := make([]float64, a)
		for b, j := range columns[:a] {
			row[b] = c.at(i, j)
		}
		k.Columns, k.Values = append(k.Columns, c.Columns[i]), append(k.Values, row)
	}
	return k
}

// strongest gives the n columns with the largest values in either direction, in
// the table's order.
func (c *Correlations) strongest(n int) []int {
	largest := make([]float64, len(c.Columns))
	order := make([]int, len(c.Columns))
	for i, row := range c.Values {
		order[i] = i
		for j, v := range row {
			if a := math.Abs(v); !math.IsNaN(a) {
				largest[i], largest[j] = math.Max(largest[i], a), math.Max(largest[j], a)
			}
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(largest[b], largest[a]) })
	chosen := order[:min(n, len(order))]
	slices.Sort(chosen)
	return chosen
}
