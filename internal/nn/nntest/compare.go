// Package nntest has what tests of networks share: definitions in float64, random networks,
// and comparisons.
package nntest

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/conclave-dp/conclave/internal/nn/tensor"
)

// Normals draws n normal numbers.
func Normals(rng *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	return x
}

// Difference is the central difference of f at x[i].
func Difference(x []float64, i int, f func() float64) float64 {
	const h = 1e-6
	was := x[i]
	x[i] = was + h
	up := f()
	x[i] = was - h
	down := f()
	x[i] = was
	return (up - down) / (2 * h)
}

// Near compares a gradient with a central difference.
func Near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 2e-3*(1+math.Abs(want)) {
		t.Errorf("%s: gradient %v, central difference %v", what, got, want)
	}
}

// Difference32 returns the central difference of f at x[i].
func Difference32(x []float32, i int, f func() float64) float64 {
	const h = 1e-2
	was := x[i]
	x[i] = was + h
	up := f()
	x[i] = was - h
	down := f()
	x[i] = was
	return (up - down) / (2 * h)
}

// Close compares tensors: each number to a part of itself and, for those that
// cancel out, of the largest.
func Close(t testing.TB, what string, got []float32, want []float64, relative float64) {
	t.Helper()
	largest := 0.0
	for _, v := range want {
		largest = math.Max(largest, math.Abs(v))
	}
	for i, v := range want {
		if !(math.Abs(float64(got[i])-v) <= relative*(math.Abs(v)+0.01*largest)) {
			t.Errorf("%s: number %d is %v, want %v (largest %v)", what, i, got[i], v, largest)
			return
		}
	}
}

func Widened(x []float32) []float64 {
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = float64(v)
	}
	return y
}

func Mapped(x []float64, f func(float64) float64) []float64 {
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = f(v)
	}
	return y
}

func WidenedParams(params []tensor.Param) [][]float64 {
	var ps [][]float64
	for _, p := range params {
		ps = append(ps, Widened(p.Value))
	}
	return ps
}
