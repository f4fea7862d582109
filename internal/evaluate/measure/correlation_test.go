package measure

import (
	"errors"
	"math"
	"testing"

	"pgregory.net/rapid"
)

func TestCorrelationByHand(t *testing.T) {
	for _, c := range []struct {
		name    string
		x, y    []float64
		pearson float64
	}{
		{"line", []float64{1, 2, 3}, []float64{10, 20, 30}, 1},
		{"falling", []float64{1, 2, 3}, []float64{9, 4, -1}, -1},
		// in thirds: products 44, squares 14 and 146
		{"monotone", []float64{0, 1, 3}, []float64{0, 1, 9}, 44 / math.Sqrt(14*146)},
		{"none", []float64{0, 0, 1, 1}, []float64{0, 1, 0, 1}, 0},
		{"a tie", []float64{1, 2, 2, 3}, []float64{1, 2, 3, 4}, 3 / math.Sqrt(2*5)},
		{"huge", []float64{-1e308, 1e308}, []float64{1e-308, 3e-308}, 1},
		{"far from zero", []float64{1e9, 1e9 + 1, 1e9 + 2}, []float64{1, 2, 3}, 1},
	} {
		if got, err := Pearson(c.x, c.y, nil); err != nil || math.Abs(got-c.pearson) > 1e-14 {
			t.Errorf("%s: pearson is %v, %v; want %v", c.name, got, err, c.pearson)
		}
	}
}

func TestCorrelationRefuses(t *testing.T) {
	for _, c := range []struct {
		name    string
		x, y, w []float64
		is      error
	}{
		{"no pairs", nil, nil, nil, ErrNoValues},
		{"a constant", []float64{1, 2}, []float64{0.1, 0.1}, nil, ErrConstant},
		{"a constant by weight", []float64{1, 2, 1}, []float64{1, 2, 3}, []float64{1, 0, 1}, ErrConstant},
		{"one pair", []float64{1}, []float64{1}, nil, ErrConstant},
		{"not pairs", []float64{1, 2}, []float64{1}, nil, nil},
		{"not a number", []float64{1, math.NaN()}, []float64{1, 2}, nil, nil},
	} {
		if _, err := Pearson(c.x, c.y, c.w); err == nil || c.is != nil && !errors.Is(err, c.is) {
			t.Errorf("%s: %v; want %v", c.name, err, c.is)
		}
	}
	if _, err := Pearson([]float64{1, math.Inf(1)}, []float64{1, 2}, nil); err == nil {
		t.Error("pearson took an infinite value")
	}
}

func TestCorrelationIsSymmetricAndBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 20).Draw(t, "n")
		x := rapid.SliceOfN(rapid.Float64Range(-1e6, 1e6), n, n).Draw(t, "x")
		y := rapid.SliceOfN(rapid.Float64Range(-5, 5), n, n).Draw(t, "y")
		r, err := Pearson(x, y, nil)
		if errors.Is(err, ErrConstant) {
			return
		}
		back, _ := Pearson(y, x, nil)
		if err != nil || !(r >= -1 && r <= 1) || math.Abs(back-r) > 1e-12 {
			t.Fatalf("%v, %v; the other way round %v", r, err, back)
		}
	})
}
