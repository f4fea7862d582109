package measure

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// RMSE is the root of the mean squared difference of predictions and truth, in
// their unit. weight is nil for 1 each.
//
// It fails with ErrNoValues without values, with ErrWeights, and for slices of
// unequal length and values that are not finite.
func RMSE(truth, predicted, weight []float64) (float64, error) {
	w, err := paired(truth, predicted, weight)
	if err == nil {
		err = CheckFinite("true value", truth)
	}
	if err == nil {
		err = CheckFinite("prediction", predicted)
	}
	if err != nil {
		return 0, fmt.Errorf("rmse: %w", err)
	}
	largest := 0.0
	for i := range truth {
		largest = math.Max(largest, math.Abs(truth[i]/2-predicted[i]/2))
	}
	if largest == 0 {
		return 0, nil
	}
	// Compute in units of the largest, whose square may overflow.
	total := 0.0
	for i := range truth {
		d := (truth[i]/2 - predicted[i]/2) / largest
		total += w[i] * d * d
	}
	return 2 * largest * math.Sqrt(total/Sum(w)), nil
}

// Median is the value with half of the weight on either side, or the mean of two such values. It fails like
// RMSE.
func Median(values, weight []float64) (float64, error) {
	w, err := Weights(len(values), weight)
	if err == nil {
		err = CheckFinite("value", values)
	}
	if err != nil {
		return 0, fmt.Errorf("median: %w", err)
	}
	var order []int
	for i := range values {
		if w[i] > 0 {
			order = append(order, i)
		}
	}
	if len(order) == 0 {
		return 0, fmt.Errorf("median: %w", ErrNoValues)
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Or(cmp.Compare(values[a], values[b]), cmp.Compare(a, b)) })
	total := 0.0
	for _, i := range order {
		total += w[i]
	}
	below := 0.0
	for k, i := range order {
		below += w[i]
		switch {
		case 2*below == total && k+1 < len(order):
			return values[i]/2 + values[order[k+1]]/2, nil
		case 2*below > total:
			return values[i], nil
		}
	}
	return values[order[len(order)-1]], nil
}
