package evaluate

import (
	"fmt"
	"math"

	"github.com/conclave-dp/conclave/evaluate/measure"
	"github.com/conclave-dp/conclave/partition"
)

// The measures of a column's shape.
const (
	KSComplement = "KSComplement"
	TVComplement = "TVComplement"
)

// Shape compares one column of a synthetic table with the real one. Scores run
// from 0 (nothing in common) to 1 (the same distribution).
type Shape struct {
	Column  string `json:"column"`
	Measure string `json:"measure"` // KSComplement or TVComplement
	// Score leaves empty cells out. It is null where one of the tables has no
	// value in this column at all.
	Score *float64 `json:"score"`
	// MissingSimilarity is 1 minus the difference of the shares of empty cells.
	MissingSimilarity float64 `json:"missing_similarity"`
}

// ColumnShape compares every column that holds data (the unit and the site are
// names, not data), by the definitions of SDMetrics: KSComplement for
// continuous and integer columns (1 minus the Kolmogorov-Smirnov statistic),
// TVComplement for categorical and binary ones (1 minus the total variation
// distance), and MissingValueSimilarity. It fails for tables without rows or
// with different columns.
func ColumnShape(real, synthetic *partition.Table) ([]Shape, error) {
	if err := sameColumns(real.Schema(), synthetic.Schema()); err != nil {
		return nil, fmt.Errorf("column shapes: %w", err)
	}
	if real.Len() == 0 || synthetic.Len() == 0 {
		return nil, fmt.Errorf("column shapes: %d real and %d synthetic rows: both are needed", real.Len(), synthetic.Len())
	}
	var shapes []Shape
	for j, column := range real.Schema().Columns {
		if column.Role != partition.RoleNone {
			continue
		}
		r, s := values(real, j), values(synthetic, j)
		shape := Shape{Column: column.Name, Measure: KSComplement}
		distance := measure.KolmogorovSmirnov
		if column.Kind == partition.Categorical || column.Kind == partition.Binary {
			shape.Measure, distance = TVComplement, measure.TotalVariation
		}
		if len(r) > 0 && len(s) > 0 {
			score := 1 - distance(r, s)
			shape.Score = &score
		}
		present := float64(len(r))/float64(real.Len()) - float64(len(s))/float64(synthetic.Len())
		shape.MissingSimilarity = 1 - math.Abs(present)
		shapes = append(shapes, shape)
	}
	return shapes, nil
}

// values gives the cells of column j that are not empty.
func values(t *partition.Table, j int) []float64 {
	out := make([]float64, 0, t.Len())
	for i := range t.Len() {
		if v := t.Cells(i)[j]; !math.IsNaN(v) {
			out = append(out, v)
		}
	}
	return out
}
