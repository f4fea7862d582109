package main

import (
	"math"
	"slices"
)

// line is a least-squares line with the standard errors of both coefficients.
type line struct{ at0, slope, at0Error, slopeError float64 }

// leastSquares fits y = at0 + slope x. The standard errors are those of independent
// errors of one size; with two points there are none.
func leastSquares(x, y []float64) line {
	n := float64(len(x))
	mx, my := mean(x), mean(y)
	sxx, sxy := 0.0, 0.0
	for i := range x {
		sxx += (x[i] - mx) * (x[i] - mx)
		sxy += (x[i] - mx) * (y[i] - my)
	}
	l := line{slope: sxy / sxx}
	l.at0 = my - l.slope*mx
	if len(x) < 3 {
		l.at0Error, l.slopeError = math.NaN(), math.NaN()
		return l
	}
	rest := 0.0
	for i := range x {
		e := y[i] - l.at0 - l.slope*x[i]
		rest += e * e
	}
	variance := rest / (n - 2)
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

func mean(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}

func median(x []float64) float64 {
	x = slices.Sorted(slices.Values(x))
	return (x[(len(x)-1)/2] + x[len(x)/2]) / 2
}
