package weighted

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/conclave-dp/conclave/internal/evaluate/measure"
)

// Estimate is a figure with its standard error by the delta method: the root of the sum of p_i^2 times the
// square of row i's influence on the figure, with p the weights' shares. Rows count as independent draws of a
// generator with fixed weights. A row of weight 2 is one draw, not two, so repeating rows changes the error but
// not the figure. The error is valid if there are many rows and none dominates.
type Estimate struct {
	Value, StandardError float64
}

// shares are the weights divided by their sum.
func shares(rows int, weight []float64) ([]float64, error) {
	w, err := checked(rows, weight)
	if err != nil {
		return nil, err
	}
	total := measure.Sum(w)
	for i := range w {
		w[i] /= total
	}
	return w, nil
}

// estimate returns a figure of rows: its value from their shares p, and the influence of row i. The caller
// checks the samples of the rows.
func estimate(name string, weight []float64, of func(p []float64) (float64, func(i int) float64, error),
	samples ...[]float64) (Estimate, error) {
	fail := func(err error) (Estimate, error) { return Estimate{}, fmt.Errorf("%s: %w", name, err) }
	rows := len(samples[0])
	p, err := shares(rows, weight)
	if err != nil {
		return fail(err)
	}
	for _, sample := range samples {
		if err := finite("the sample", sample, rows); err != nil {
			return fail(err)
		}
	}
	value, influence, err := of(p)
	if err != nil {
		return fail(err)
	}
	e := Estimate{value, deviation(p, influence)}
	if s := e.Value + e.StandardError; math.IsNaN(s) || math.IsInf(s, 0) {
		return fail(errOverflow)
	}
	return e, nil
}

// deviation adds up squares of share times influence.
func deviation(share []float64, influence func(i int) float64) float64 {
	total := 0.0
	for i, p := range share {
		if p > 0 {
			total = math.Hypot(total, p*influence(i))
		}
	}
	return total
}

// Mean is the self-normalized mean, sum w x / sum w. Its bias is of the order of
// 1/EffectiveSize; the unit of the weights does not matter.
//
// It fails with ErrNoValues, with ErrWeights, and for values that are not finite.
func Mean(x, weight []float64) (Estimate, error) {
	return estimate("weighted mean", weight, func(p []float64) (float64, func(int) float64, error) {
		mean := dot(p, x)
		return mean, func(i int) float64 { return x[i] - mean }, nil
	}, x)
}

// PlainMean is sum w x / m over m rows, for weights that are the likelihood ratios
// themselves: it has no bias then, and often more variance than Mean. It fails as Mean
// does.
func PlainMean(x, weight []float64) (Estimate, error) {
	if _, err := checked(len(x), weight); err != nil {
		return Estimate{}, fmt.Errorf("plain weighted mean: %w", err)
	}
	terms := slices.Clone(x)
	for i := range weight {
		terms[i] *= weight[i]
	}
	e, err := Mean(terms, nil)
	if err != nil {
		return Estimate{}, fmt.Errorf("plain %w", err)
	}
	return e, nil
}

// Variance is the weighted mean of squared distances from Mean (divisor sum w). It
// fails as Mean does.
func Variance(x, weight []float64) (Estimate, error) {
	return estimate("weighted variance", weight, func(p []float64) (float64, func(int) float64, error) {
		mean, v := dot(p, x), 0.0
		square := func(i int) float64 { return (x[i] - mean) * (x[i] - mean) }
		for i := range x {
			v += p[i] * square(i)
		}
		return v, func(i int) float64 { return square(i) - v }, nil
	}, x)
}

// Ratio is sum w y / sum w x: the ratio of two totals, or the mean over a part of the rows (x is then 1 in it
// and 0 elsewhere, y the value there). It fails as Mean does, and if the denominator is 0.
func Ratio(y, x, weight []float64) (Estimate, error) {
	return estimate("weighted ratio", weight, func(p []float64) (float64, func(int) float64, error) {
		below := dot(p, x)
		if below == 0 {
			return 0, nil, errors.New("the weighted sum of x is 0: there is nothing to divide by")
		}
		r := dot(p, y) / below
		return r, func(i int) float64 { return (y[i] - r*x[i]) / below }, nil
	}, x, y)
}

// Quantile is the value with the share q of the weight up to it, from 0 to 1. If two values share that place,
// it is their mean (Hyndman and Fan 1996, definition 2). Its standard error is half the distance of the
// quantiles one standard error of the share to either side (Woodruff 1952). It fails as Mean does, and for q
// outside [0,1].
func Quantile(x, weight []float64, q float64) (Estimate, error) {
	fail := func(err error) (Estimate, error) { return Estimate{}, fmt.Errorf("weighted quantile: %w", err) }
	if !(q >= 0 && q <= 1) {
		return fail(fmt.Errorf("the share %v is not between 0 and 1", q))
	}
	p, err := shares(len(x), weight)
	if err == nil {
		err = finite("the sample", x, len(x))
	}
	if err != nil {
		return fail(err)
	}
	var order []int
	for i, v := range p {
		if v > 0 {
			order = append(order, i)
		}
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Or(cmp.Compare(x[a], x[b]), cmp.Compare(a, b)) })
	value := quantile(x, p, order, q)
	s := deviation(p, func(i int) float64 {
		if x[i] <= value {
			return 1 - q
		}
		return -q
	})
	low, high := quantile(x, p, order, max(0, q-s)), quantile(x, p, order, min(1, q+s))
	return Estimate{value, high/2 - low/2}, nil
}

// quantile walks up the rows in order.
func quantile(x, share []float64, order []int, q float64) float64 {
	const rounding = 1e-12 // of a sum of shares
	below := 0.0
	for k, i := range order {
		below += share[i]
		switch {
		case k+1 < len(order) && math.Abs(below-q) <= rounding:
			return x[i]/2 + x[order[k+1]]/2
		case below > q:
			return x[i]
		}
	}
	return x[order[len(order)-1]]
}

func dot(a, b []float64) float64 {
	total := 0.0
	for i, v := range a {
		total += v * b[i]
	}
	return total
}
