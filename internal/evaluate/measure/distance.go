package measure

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// KolmogorovSmirnov is the largest difference of the two empirical distribution
// functions: 0 for equal distributions, 1 for samples that do not overlap. wa
// and wb are the values' weights, nil for 1 each.
//
// It fails with ErrNoValues for an empty sample, with ErrWeights, and for NaN;
// infinite values are allowed.
func KolmogorovSmirnov(a, b, wa, wb []float64) (float64, error) {
	values, err := merge(a, b, wa, wb)
	if err != nil {
		return 0, fmt.Errorf("kolmogorov-smirnov: %w", err)
	}
	var fa, fb, largest float64
	for _, v := range values {
		fa += v.a
		fb += v.b
		largest = math.Max(largest, math.Abs(fa-fb))
	}
	return min(largest, 1), nil
}

// TotalVariation is half the sum, over the values, of the difference of their
// shares: 0 for equal distributions, 1 for samples without a common value. It
// takes and refuses the same as KolmogorovSmirnov.
func TotalVariation(a, b, wa, wb []float64) (float64, error) {
	values, err := merge(a, b, wa, wb)
	if err != nil {
		return 0, fmt.Errorf("total variation: %w", err)
	}
	total := 0.0
	for _, v := range values {
		total += math.Abs(v.a - v.b)
	}
	return min(total/2, 1), nil
}

// Wasserstein is the first Wasserstein (earth mover's) distance of two samples
// of numbers, in their unit: the area between the two empirical distribution
// functions (Vallender 1974). It takes and refuses the same as KolmogorovSmirnov,
// and refuses infinite values.
func Wasserstein(a, b, wa, wb []float64) (float64, error) {
	for _, sample := range [][]float64{a, b} {
		if err := CheckFinite("value", sample); err != nil {
			return 0, fmt.Errorf("wasserstein: %w", err)
		}
	}
	values, err := merge(a, b, wa, wb)
	if err != nil {
		return 0, fmt.Errorf("wasserstein: %w", err)
	}
	var fa, fb, area float64
	for i, v := range values[:len(values)-1] {
		fa += v.a
		fb += v.b
		// Halve first: the difference of two finite numbers may be infinite.
		area += math.Abs(fa-fb) * (values[i+1].at/2 - v.at/2)
	}
	return 2 * area, nil
}

// mass is the share of each sample that has a value.
type mass struct{ at, a, b float64 }

// merge returns the distinct values of two samples in rising order.
func merge(a, b, wa, wb []float64) ([]mass, error) {
	first, err := shares(a, wa)
	if err != nil {
		return nil, err
	}
	second, err := shares(b, wb)
	if err != nil {
		return nil, err
	}
	out := make([]mass, 0, len(first)+len(second))
	for i, j := 0, 0; i < len(first) || j < len(second); {
		switch {
		case j == len(second) || i < len(first) && first[i].at < second[j].at:
			out = append(out, first[i])
			i++
		case i == len(first) || second[j].at < first[i].at:
			out = append(out, mass{at: second[j].at, b: second[j].a})
			j++
		default:
			out = append(out, mass{first[i].at, first[i].a, second[j].a})
			i++
			j++
		}
	}
	return out, nil
}

// shares returns the distinct values of one sample that have weight.
func shares(values, weight []float64) ([]mass, error) {
	w, err := Weights(len(values), weight)
	if err != nil {
		return nil, err
	}
	all := make([]mass, 0, len(values))
	for i, v := range values {
		if math.IsNaN(v) {
			return nil, fmt.Errorf("value %d is not a number: leave it out", i+1)
		}
		if w[i] > 0 {
			all = append(all, mass{at: v, a: w[i]})
		}
	}
	if len(all) == 0 {
		return nil, ErrNoValues
	}
	// Sort by weight as well, so that the order of the rows cannot change the last digit.
	slices.SortFunc(all, func(x, y mass) int { return cmp.Or(cmp.Compare(x.at, y.at), cmp.Compare(x.a, y.a)) })
	total := 0.0
	for _, v := range all {
		total += v.a
	}
	out := all[:0]
	for _, v := range all {
		if n := len(out); n > 0 && out[n-1].at == v.at {
			out[n-1].a += v.a
		} else {
			out = append(out, v)
		}
	}
	for i := range out {
		out[i].a /= total
	}
	return out, nil
}
