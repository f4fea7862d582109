package measure

import (
	"errors"
	"fmt"
	"math"
)

// ErrConstant means that all values of a sample are equal, so that it has no correlation with anything.
var ErrConstant = errors.New("all values are the same")

// Pearson is the correlation coefficient of paired numbers, from -1 to 1, with
// weights of the pairs, nil for 1 each.
//
// It fails with ErrNoValues without pairs, with ErrConstant, with ErrWeights, and for
// slices of unequal length and values that are not finite.
func Pearson(x, y, weight []float64) (float64, error) {
	fail := func(err error) (float64, error) { return 0, fmt.Errorf("pearson: %w", err) }
	w, err := paired(x, y, weight)
	if err != nil {
		return fail(err)
	}
	dx, err := centred(x, w)
	if err != nil {
		return fail(err)
	}
	dy, err := centred(y, w)
	if err != nil {
		return fail(err)
	}
	var xx, yy, xy float64
	for i, v := range w {
		xx += v * dx[i] * dx[i]
		yy += v * dy[i] * dy[i]
		xy += v * dx[i] * dy[i]
	}
	if !(xx > 0 && yy > 0) { // all but one value have almost no weight
		return fail(ErrConstant)
	}
	return max(-1, min(1, xy/math.Sqrt(xx)/math.Sqrt(yy))), nil
}

func paired(x, y, weight []float64) ([]float64, error) {
	if len(x) != len(y) {
		return nil, fmt.Errorf("%d and %d values: they must be pairs", len(x), len(y))
	}
	if len(x) == 0 {
		return nil, ErrNoValues
	}
	return Weights(len(x), weight)
}

// centred returns the distances from the weighted mean, in units of the largest, so that squares do not
// overflow.
func centred(x, w []float64) ([]float64, error) {
	if err := CheckFinite("value", x); err != nil {
		return nil, err
	}
	low, high := math.Inf(1), math.Inf(-1)
	for i, v := range x {
		if w[i] > 0 {
			low, high = min(low, v), max(high, v)
		}
	}
	if low == high {
		return nil, ErrConstant
	}
	// The difference of two very large numbers may overflow, so these are halved first.
	half := 1.0
	if math.IsInf(high-low, 0) {
		half = 0.5
	}
	middle, span := half*low, half*high-half*low
	out := make([]float64, len(x))
	mean, total := 0.0, 0.0
	for i, v := range x {
		if w[i] > 0 {
			out[i] = (half*v - middle) / span
			mean += w[i] * out[i]
			total += w[i]
		}
	}
	mean /= total
	for i := range out {
		out[i] -= mean
	}
	return out, nil
}
