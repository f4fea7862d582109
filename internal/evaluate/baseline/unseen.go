package baseline

import (
	"cmp"
	"math"
	"slices"

	"github.com/conclave-dp/conclave/internal/evaluate"
	"github.com/conclave-dp/conclave/partition"
)

// A report lists the most frequent combinations, since a table of many columns has too many pairs to read.
const (
	mostListed = 20
	mostPairs  = 2000
)

// Unseen finds combinations of the values of two categorical or binary columns that occur in the rows and in no
// real row of any of the tables. The result is nil for a schema with fewer than two such columns. An empty cell
// is a value. At most the first 2,000 pairs of columns are examined, in the order of the schema.
func Unseen(real []*partition.Table, synthetic, independent *partition.Table) *evaluate.Unseen {
	schema := synthetic.Schema()
	var columns []int
	for j, c := range schema.Columns {
		if c.Role == partition.RoleNone && (c.Kind == partition.Categorical || c.Kind == partition.Binary) {
			columns = append(columns, j)
		}
	}
	if len(columns) < 2 {
		return nil
	}
	u := &evaluate.Unseen{}
	for _, t := range real {
		u.Against += t.Len()
	}
	with, withIndependent := make([]bool, synthetic.Len()), make([]bool, independent.Len())
	weight := weights(synthetic)
	looked := 0
	for k, a := range columns {
		for _, b := range columns[k+1:] {
			if looked++; looked > mostPairs {
				break
			}
			seen := map[[2]float64]bool{}
			for _, t := range real {
				for i := range t.Len() {
					seen[pairOf(t, i, a, b)] = true
				}
			}
			found := map[[2]float64]float64{}
			for i := range synthetic.Len() {
				if at := pairOf(synthetic, i, a, b); !seen[at] && weight[i] > 0 {
					with[i] = true
					found[at] += weight[i]
				}
			}
			for i := range independent.Len() {
				withIndependent[i] = withIndependent[i] || !seen[pairOf(independent, i, a, b)]
			}
			for at, rows := range found {
				u.Combinations = append(u.Combinations, evaluate.Combination{
					Columns: [2]string{schema.Columns[a].Name, schema.Columns[b].Name},
					Values:  [2]string{valueText(&schema.Columns[a], at[0]), valueText(&schema.Columns[b], at[1])},
					Rows:    rows,
				})
			}
		}
	}
	slices.SortFunc(u.Combinations, func(x, y evaluate.Combination) int {
		return cmp.Or(cmp.Compare(y.Rows, x.Rows), slices.Compare(x.Columns[:], y.Columns[:]),
			slices.Compare(x.Values[:], y.Values[:]))
	})
	u.Kinds = len(u.Combinations)
	u.Combinations = u.Combinations[:min(mostListed, u.Kinds)]
	u.Rows, u.Independent = share(with, weight), share(withIndependent, weights(independent))
	return u
}

// missing stands for an empty cell, since NaN cannot be a map key.
const missing = -1

func pairOf(t *partition.Table, row, a, b int) [2]float64 {
	cells := t.Cells(row)
	at := [2]float64{cells[a], cells[b]}
	for i, v := range at {
		if math.IsNaN(v) {
			at[i] = missing
		}
	}
	return at
}

func valueText(c *partition.Column, v float64) string {
	if v == missing {
		return "(empty)"
	}
	return c.CellText(v)
}

// weights returns each row's share of the total weight.
func weights(t *partition.Table) []float64 {
	out := slices.Clone(t.Weights())
	if out == nil {
		out = slices.Repeat([]float64{1}, t.Len())
	}
	total := 0.0
	for _, w := range out {
		total += w
	}
	for i := range out {
		out[i] /= total
	}
	return out
}

func share(which []bool, weight []float64) (sum float64) {
	for i, in := range which {
		if in {
			sum += weight[i]
		}
	}
	return min(1, sum)
}
