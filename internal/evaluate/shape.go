package evaluate

import (
	"errors"
	"fmt"
	"math"

	"github.com/conclave-dp/conclave/internal/evaluate/measure"
	"github.com/conclave-dp/conclave/partition"
)

// The measures of a column's shape.
const (
	KSComplement = "KSComplement"
	TVComplement = "TVComplement"
)

// ErrWeights means that the weights given for the rows cannot be used.
var ErrWeights = measure.ErrWeights

// Shape compares one column of a synthetic table with the real one. Scores run
// from 0 (nothing in common) to 1 (the same distribution).
type Shape struct {
	Column  string `json:"column"`
	Measure string `json:"measure"` // KSComplement or TVComplement
	// Score leaves empty cells out. It is null if one of the tables has no value in this column.
	Score *float64 `json:"score"`
	// MissingSimilarity is 1 minus the difference of the shares of empty cells.
	MissingSimilarity float64 `json:"missing_similarity"`
}

// CompareColumns compares every data column (the unit and the site are names, not data), by the definitions of
// SDMetrics: KSComplement for continuous and integer columns (1 minus the Kolmogorov-Smirnov statistic),
// TVComplement for categorical and binary ones (1 minus the total variation distance), and
// MissingValueSimilarity. Numbers also have their Wasserstein distance, in units of the column's public range.
// weight are the weights of the synthetic rows, nil for 1 each. Notes name what could not be measured.
//
// It fails for tables without rows or with different columns, and with ErrWeights. The figures are computed
// from real rows: NOT PRIVATE.
func CompareColumns(real, synthetic *partition.Table, weight []float64) (columns []ColumnQuality, notes []string,
	err error) {
	if weight, err = checkTables(real, synthetic, weight); err != nil {
		return nil, nil, fmt.Errorf("column shapes: %w", err)
	}
	schema := real.Schema()
	for _, j := range dataColumns(schema) {
		column := &schema.Columns[j]
		r, _, presentReal := values(real, j, nil)
		s, w, presentSynthetic := values(synthetic, j, weight)
		quality := ColumnQuality{Shape: Shape{Column: column.Name, Measure: KSComplement}}
		quality.MissingSimilarity = 1 - math.Abs(presentReal-presentSynthetic)
		distance := measure.KolmogorovSmirnov
		if !isNumber(column) {
			quality.Measure, distance = TVComplement, measure.TotalVariation
		}
		if len(r) == 0 || len(s) == 0 {
			notes = append(notes, fmt.Sprintf(
				"column %s: all cells of one table are empty, so its shape was not compared", column.Name))
			columns = append(columns, quality)
			continue
		}
		d, err := distance(r, s, nil, w)
		if err != nil {
			return nil, nil, fmt.Errorf("column %s: %w", column.Name, err)
		}
		score := 1 - d
		quality.Score = &score
		if lo, hi := column.Range(); isNumber(column) && hi > lo {
			moved, err := measure.Wasserstein(r, s, nil, w)
			if err != nil {
				return nil, nil, fmt.Errorf("column %s: %w", column.Name, err)
			}
			moved /= hi - lo
			quality.Wasserstein = &moved
		}
		columns = append(columns, quality)
	}
	return columns, notes, nil
}

// values returns the nonempty cells of column j that have weight, their weights, and their share of all weight.
// A nil weight is 1 each.
func values(t *partition.Table, j int, weight []float64) (cells, weights []float64, share float64) {
	var present, all float64
	for i := range t.Len() {
		w := 1.0
		if weight != nil {
			w = weight[i]
		}
		all += w
		if v := t.Cells(i)[j]; !math.IsNaN(v) && w > 0 {
			present += w
			cells = append(cells, v)
			weights = append(weights, w)
		}
	}
	return cells, weights, present / all
}

// checkTables refuses tables that cannot be compared, and returns the weights of the synthetic rows, whose sum
// is finite.
func checkTables(real, synthetic *partition.Table, weight []float64) ([]float64, error) {
	if real == nil || synthetic == nil {
		return nil, errors.New("a table is missing: both are needed")
	}
	if err := sameColumns(real.Schema(), synthetic.Schema()); err != nil {
		return nil, err
	}
	if real.Len() == 0 || synthetic.Len() == 0 {
		return nil, fmt.Errorf("%d real and %d synthetic rows: both are needed", real.Len(), synthetic.Len())
	}
	return measure.Weights(synthetic.Len(), weight)
}

func dataColumns(schema *partition.Schema) []int {
	var columns []int
	for j := range schema.Columns {
		if c := &schema.Columns[j]; c.Role == partition.RoleNone && c.HasCell() {
			columns = append(columns, j)
		}
	}
	return columns
}

func isNumber(c *partition.Column) bool {
	return c.Kind == partition.Continuous || c.Kind == partition.Integer
}
