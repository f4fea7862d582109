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

// CheckWeights fails unless the weights have a mean of 1, so that they add up to the number of rows,
// are one for each row and none negative, and the schema has no column of their name (ErrWeightColumn).
func (t *Table) CheckWeights(weights []float64) error {
	if err := t.usable(weights); err != nil {
		return err
	}
	mean := 0.0
	for i, v := range weights {
		mean += (v - mean) / float64(i+1)
	}
	if !(math.Abs(mean-1) <= meanTolerance) {
		return fmt.Errorf("the mean of the weights is %v, not 1; divide them by it", mean)
	}
	return nil
}

// Weights are those of the rows, read by Options.Weights or given by WithWeights:
// one each, not negative. They are nil where the file had none.
func (t *Table) Weights() []float64 { return t.weights }

// WithWeights is a table of the same rows with these weights, one each, none
// negative, in place of any that it had. It fails with ErrWeightColumn, and for
// weights that cannot be used.
func (t *Table) WithWeights(weights []float64) (*Table, error) {
	if err := t.usable(weights); err != nil {
		return nil, err
	}
	out := *t
	out.weights = slices.Clone(weights)
	return &out, nil
}

// usable says what is wrong with weights of the rows whatever their mean is; of one of them it is an
// *InputError without its value.
func (t *Table) usable(weights []float64) error {
	if err := t.schema.AcceptsWeights(); err != nil {
		return err
	}
	if len(weights) != t.rows {
		return fmt.Errorf("%d weights for %d rows: give one each", len(weights), t.rows)
	}
	some := false
	for i, w := range weights {
		if !(w >= 0) || math.IsInf(w, 0) {
			return &InputError{Row: i + 1, Column: WeightColumn, Problem: "the weight is negative or not finite",
				Fix: "give every row a finite weight of at least 0"}
		}
		some = some || w > 0
	}
	if !some {
		return &InputError{Column: WeightColumn, Problem: "all weights are 0",
			Fix: "give one row a weight above 0 at least, or remove the column"}
	}
	return nil
}
