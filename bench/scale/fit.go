package main

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
)

// line is a least-squares line with the standard errors of both coefficients.
type line struct{ at0, slope, at0Error, slopeError float64 }

// leastSquares fits y = at0 + slope x. The standard errors are those of independent
// errors of one size; with two points there are none.
func leastSquares(x, y []float64) line {
	n := float64(len(x))
	var l line
	l.at0, l.slope = stat.LinearRegression(x, y, nil, false)
	if len(x) < 3 {
		l.at0Error, l.slopeError = math.NaN(), math.NaN()
		return l
	}
	rest := 0.0
	for i := range x {
		e := y[i] - l.at0 - l.slope*x[i]
		rest += e * e
	}
	variance, mx, sxx := rest/(n-2), stat.Mean(x, nil), (n-1)*stat.Variance(x, nil)
	l.slopeError = math.Sqrt(variance / sxx)
	l.at0Error = math.Sqrt(variance * (1/n + mx*mx/sxx))
	return l
}

// exponent fits y = c x^slope, by least squares of the logarithms.
func exponent(x, y []float64) line { return leastSquares(logs(x), logs(y)) }

func logs(x []float64) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = math.Log(v)
	}
	return out
}

func median(x []float64) float64 {
	x = slices.Sorted(slices.Values(x))
	return (x[(len(x)-1)/2] + x[len(x)/2]) / 2
}
