package partition

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// WeightColumn is the column that holds the weights of synthetic rows. It stands
// last, beside the schema's columns.
const WeightColumn = "weight"

// ErrWeightColumn says that a schema has a column of the name WeightColumn, so that
// no file of its rows can have weights.
var ErrWeightColumn = errors.New("the schema has a column of this name")

// meanTolerance is how far the mean of weights may be from 1: more than rounding of
// a mean over any table, less than anybody would call another mean.
const meanTolerance = 1e-9

// AcceptsWeights fails with ErrWeightColumn where weights of rows would be taken
// for data.
func (s *Schema) AcceptsWeights() error {
	if s.ColumnIndex(WeightColumn) >= 0 {
		return fmt.Errorf("weights of rows stand in a column %q: %w; rename it in schema and data,"+
			" or do without weights", WeightColumn, ErrWeightColumn)
	}
	return nil
}

// MeanOne scales importance weights to a mean of 1, so that they add up to the
// number of rows. It fails for weights that are negative or not finite, and for
// those that are all 0.
func MeanOne(weights []float64) ([]float64, error) {
	if fault := weightFault(weights); fault != nil {
		return nil, fault
	}
	// In units of the largest, whose sum is finite whatever their size.
	largest, total := 0.0, 0.0
	for _, w := range weights {
		largest = math.Max(largest, w)
	}
	for _, w := range weights {
		total += w / largest
	}
	out := make([]float64, len(weights))
	for i, w := range weights {
		out[i] = w / largest * (float64(len(weights)) / total)
	}
	return out, nil
}

// CheckWeights fails unless the weights have a mean of 1 (see MeanOne), are one for each row
// and none negative, and the schema has no column of their name (ErrWeightColumn).
func (t *Table) CheckWeights(weights []float64) error {
	if err := t.schema.AcceptsWeights(); err != nil {
		return err
	}
	if len(weights) != t.rows {
		return fmt.Errorf("%d weights for %d rows: give one each", len(weights), t.rows)
	}
	if fault := weightFault(weights); fault != nil {
		return fault
	}
	mean := 0.0
	for i, v := range weights {
		mean += (v - mean) / float64(i+1)
	}
	if !(math.Abs(mean-1) <= meanTolerance) {
		return fmt.Errorf("the mean of the weights is %v, not 1; scale them with MeanOne", mean)
	}
	return nil
}

// Weights are those of the rows, read by Options.Weights or given by WithWeights:
// one each, not negative. They are nil where the file had none.
func (t *Table) Weights() []float64 {
	if t.schema.ColumnIndex(WeightColumn) >= 0 {
		return nil
	}
	return t.Extra(WeightColumn)
}

// WithWeights is a table of the same rows with these weights, one each, none
// negative, in place of any that it had. It fails with ErrWeightColumn, and for
// weights that cannot be used.
func (t *Table) WithWeights(weights []float64) (*Table, error) {
	if err := t.schema.AcceptsWeights(); err != nil {
		return nil, err
	}
	if len(weights) != t.rows {
		return nil, fmt.Errorf("%d weights for %d rows: give one each", len(weights), t.rows)
	}
	if fault := weightFault(weights); fault != nil {
		return nil, fault
	}
	out := *t
	out.extra = nil
	for _, e := range t.extra {
		if e.Name != WeightColumn {
			out.extra = append(out.extra, e)
		}
	}
	out.extra = append(out.extra, ExtraColumn{Name: WeightColumn, Values: slices.Clone(weights)})
	return &out, nil
}

// weightFault says which of the weights cannot be used.
func weightFault(weights []float64) error {
	some := false
	for i, w := range weights {
		if !(w >= 0) || math.IsInf(w, 0) {
			return fmt.Errorf("the weight of row %d is %v: it must be finite and not negative", i+1, w)
		}
		some = some || w > 0
	}
	if !some {
		return errors.New("no row has a weight above 0: give one of them a weight at least")
	}
	return nil
}
