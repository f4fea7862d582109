package measure

import (
	"errors"
	"fmt"
	"math"
)

// InterpolatedPrecision is the area under the precision-recall curve as R's package PRROC computes it
// (auc.integral; Keilwagen, Grosse, Grau 2014, "Area under precision-recall curves for weighted and unweighted
// data"). Between two thresholds, true and false positives grow in proportion (Davis and Goadrich 2006). With x
// true positives, precision is then x/(x + f + h (x - p)), with h false ones per true one; its integral is
// exact (Boyd, Eng, Page 2013). AveragePrecision interpolates nothing. Weights and errors are those of AUROC.
func InterpolatedPrecision(positive []bool, scores, weight []float64) (float64, error) {
	r, err := rank(positive, scores, weight)
	if err != nil {
		return 0, fmt.Errorf("interpolated precision: %w", err)
	}
	var area, hits, misses float64
	for p, n := range r.ties {
		if p > 0 {
			// x/(a x + b) from hits to hits+p.
			a := 1 + n/p
			b := misses - n/p*hits
			area += ratioIntegral(a, b, hits, p)
		}
		hits += p
		misses += n
	}
	return min(max(area/hits, 0), 1), nil
}

// ratioIntegral is the integral of x/(a x + b) from start over a length, if a is at least 1 and the denominator at
// least x.
func ratioIntegral(a, b, start, length float64) float64 {
	if b == 0 {
		return length / a
	}
	low := a*start + b
	if low <= 0 { // nothing is above the threshold yet, so b is 0 up to rounding
		return length / a
	}
	// log1p keeps the digits of short steps, whose two terms nearly cancel.
	return length/a - b/a*(math.Log1p(a*length/low)/a)
}

// Accuracy is the share of rows, by weight, whose class is predicted correctly. A score above the threshold
// means positive. weight is nil for 1 each. It fails for slices of unequal length, NaN, no rows, and with
// ErrWeights.
func Accuracy(positive []bool, scores []float64, threshold float64, weight []float64) (float64, error) {
	w, err := scored(positive, scores, weight)
	if err == nil && len(scores) == 0 {
		err = ErrNoValues
	}
	if err == nil && math.IsNaN(threshold) {
		err = errors.New("the threshold is not a number")
	}
	if err != nil {
		return 0, fmt.Errorf("accuracy: %w", err)
	}
	right := 0.0
	for i, s := range scores {
		if positive[i] == (s > threshold) {
			right += w[i]
		}
	}
	return min(right/Sum(w), 1), nil
}
