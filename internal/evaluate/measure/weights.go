package measure

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// ErrWeights means that the weights of rows cannot be used. Each row needs a weight that is finite and not
// negative, and not all weights may be zero.
var ErrWeights = errors.New("the weights of the rows cannot be used")

// ErrNoValues means that a sample is empty, or that all its weights are zero.
var ErrNoValues = errors.New("there are no values")

// CheckWeights fails with ErrWeights unless weight is nil, which means 1 each, or has one finite weight of at
// least 0 for each of the rows and one above 0.
func CheckWeights(rows int, weight []float64) error {
	if weight == nil {
		return nil
	}
	if len(weight) != rows {
		return fmt.Errorf("%w: %d weights for %d rows: give one each, or none", ErrWeights, len(weight), rows)
	}
	largest := 0.0
	for i, w := range weight {
		if !(w >= 0) || math.IsInf(w, 0) {
			return fmt.Errorf("%w: that of row %d is %v: it must be finite and not negative", ErrWeights, i+1, w)
		}
		largest = math.Max(largest, w)
	}
	if largest == 0 && rows > 0 {
		return fmt.Errorf("%w: all of them are 0: give one row a weight at least", ErrWeights)
	}
	return nil
}

// Weights returns one weight per row, 1 each for nil. Only their ratios matter to the figures here, so they are
// multiplied by a power of two, which is exact, so that neither their sum nor a product of two of them can
// overflow. It fails like CheckWeights.
func Weights(rows int, weight []float64) ([]float64, error) {
	if err := CheckWeights(rows, weight); err != nil {
		return nil, err
	}
	if weight == nil || rows == 0 {
		return slices.Repeat([]float64{1}, rows), nil
	}
	out := make([]float64, rows)
	_, exponent := math.Frexp(slices.Max(weight))
	for i, w := range weight {
		out[i] = math.Ldexp(w, 1-exponent)
	}
	return out, nil
}

// CheckFinite refuses NaN and infinite values.
func CheckFinite(name string, values []float64) error {
	for i, v := range values {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("%s %d is %v: leave out what is not a finite number", name, i+1, v)
		}
	}
	return nil
}

// Sum adds up, in order.
func Sum(values []float64) float64 {
	total := 0.0
	for _, v := range values {
		total += v
	}
	return total
}
