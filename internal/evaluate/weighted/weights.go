package weighted

import (
	"errors"
	"fmt"
	"math"

	"github.com/conclave-dp/conclave/internal/evaluate/measure"
)

// ErrWeights means that weights cannot be used. Each row needs a weight that is finite and not negative, and
// not all may be zero. The message says which.
var ErrWeights = measure.ErrWeights

// ErrNoValues means that a table has no rows.
var ErrNoValues = measure.ErrNoValues

// checked returns the weights in units of a power of two, so that their sum is finite.
func checked(rows int, weight []float64) ([]float64, error) {
	if rows == 0 {
		if len(weight) > 0 {
			return nil, measure.CheckWeights(rows, weight)
		}
		return nil, ErrNoValues
	}
	return measure.Weights(rows, weight)
}

// Size is the sum that weights are scaled to. Its argument is one checked weight for each row.
type Size func(weight []float64) float64

// SumOfRows is the number of rows, so that weights have a mean of 1.
func SumOfRows(weight []float64) float64 { return float64(len(weight)) }

// EffectiveSize is the number of rows of equal weight that give a mean the same variance as these: (sum w)^2 /
// sum w^2 (Kish 1965, "Survey Sampling"). It is at least 1 and at most the number of rows of weight above 0. It
// is undefined for weights that measure.CheckWeights refuses.
func EffectiveSize(weight []float64) float64 {
	largest := 0.0
	for _, w := range weight {
		largest = math.Max(largest, w)
	}
	var sum, square float64
	for _, w := range weight { // in units of the largest, so that no square is infinite
		sum += w / largest
		square += w / largest * (w / largest)
	}
	return sum / square * sum
}

// Scale multiplies weights so that they add up to size: SumOfRows, EffectiveSize, or a function of the
// caller's. The package comment says what that means. It fails with ErrWeights, and for a size that is not
// positive and finite.
func Scale(weight []float64, size Size) ([]float64, error) {
	w, err := checked(len(weight), weight)
	if err != nil {
		return nil, fmt.Errorf("scale weights: %w", err)
	}
	want := size(w)
	if !(want > 0) || math.IsInf(want, 0) {
		return nil, fmt.Errorf("scale weights: to a sum of %v: it must be positive and finite", want)
	}
	total := measure.Sum(w)
	for i := range w {
		w[i] = w[i] / total * want
	}
	return w, nil
}

// finite refuses NaN and infinite values, and a number of them that differs from the number of rows.
func finite(name string, values []float64, rows int) error {
	if len(values) != rows {
		return fmt.Errorf("%d values of %s for %d rows: give one each", len(values), name, rows)
	}
	if err := measure.CheckFinite("value", values); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

var errOverflow = errors.New("the result overflows: use a larger unit")
