package measure

import (
	"errors"
	"math"
	"strings"
	"testing"
)

// Ties across the two samples are where a hasty implementation goes wrong.
func TestDistancesByHand(t *testing.T) {
	given := []float64{3, 1}
	if _, _ = KolmogorovSmirnov(given, given, nil, nil); given[0] != 3 {
		t.Error("an argument was sorted")
	}
	for _, c := range []struct {
		a, b       []float64
		ks, tv, w1 float64
	}{
		{[]float64{1, 2, 3}, []float64{3, 2, 1}, 0, 0, 0},
		{[]float64{1, 1, 1}, []float64{2, 2}, 1, 1, 1},
		{[]float64{1, 2, 2, 3}, []float64{2, 3, 3, 3}, 0.5, 0.5, 0.75}, // 1/4 from 1 to 2, 1/2 from 2 to 3
		{[]float64{5}, []float64{5, 5, 5, 6}, 0.25, 0.25, 0.25},
		{[]float64{1, 4}, []float64{2, 3}, 0.5, 1, 1},
		{[]float64{0}, []float64{-10}, 1, 1, 10},
	} {
		for k, name := range []string{"ks", "tv", "wasserstein"} {
			want := []float64{c.ks, c.tv, c.w1}[k]
			if got, err := distances()[name](c.a, c.b, nil, nil); err != nil || math.Abs(got-want) > 1e-15 {
				t.Errorf("%s of %v and %v is %v, %v; want %v", name, c.a, c.b, got, err, want)
			}
		}
	}
}

func TestDistancesRefuse(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for name, f := range distances() {
		if _, err := f(nil, []float64{1}, nil, nil); !errors.Is(err, ErrNoValues) {
			t.Errorf("%s of an empty sample: %v", name, err)
		}
		if _, err := f([]float64{1}, []float64{2, nan}, nil, nil); err == nil ||
			!strings.Contains(err.Error(), "value 2") {
			t.Errorf("%s of NaN: %v", name, err)
		}
		_, err := f([]float64{1, inf}, []float64{-inf, 2}, nil, nil)
		if (err != nil) != (name == "wasserstein") {
			t.Errorf("%s of infinite values: %v", name, err)
		}
	}
	far, err := Wasserstein([]float64{-1e308}, []float64{0.5e308}, nil, nil)
	if err != nil || far != 1.5e308 {
		t.Errorf("wasserstein of numbers far apart: %v, %v", far, err)
	}
}

func TestContingencyByHand(t *testing.T) {
	a := [][]int32{{0, 0, 1, 1}, {0, 1, 0, 1}} // independent
	b := [][]int32{{0, 0, 1, 1}, {0, 0, 1, 1}} // the same columns, equal to each other
	got, err := ContingencyTotalVariation(a, b, []int{2, 2}, nil, nil)
	if err != nil || got != 0.5 {
		t.Errorf("got %v, %v; want 0.5", got, err)
	}
	// Many cells take another code path, with the same result.
	if got, err = ContingencyTotalVariation(a, b, []int{1 << 20, 1 << 20}, nil, nil); err != nil || got != 0.5 {
		t.Errorf("of many cells: %v, %v; want 0.5", got, err)
	}
	for _, c := range []struct {
		name  string
		a, b  [][]int32
		sizes []int
		says  string
	}{
		{"no columns", nil, nil, nil, "0 columns"},
		{"no rows", [][]int32{{}}, [][]int32{{0}}, []int{2}, "no values"},
		{"too many cells", a, b, []int{1 << 40, 1 << 40}, "cells"},
		{"no categories", a, b, []int{0, 2}, "cells"},
		{"out of range", a, [][]int32{{0}, {2}}, []int{2, 2}, "category 2 of row 1 in column 2"},
		{"negative", [][]int32{{-1}}, [][]int32{{0}}, []int{2}, "category -1"},
		{"fewer columns", a, b[:1], []int{2, 2}, "1 columns"},
		{"unequal columns", [][]int32{{0, 1}, {0}}, b, []int{2, 2}, "columns of 2 and of 1 rows"},
	} {
		if _, err := ContingencyTotalVariation(c.a, c.b, c.sizes, nil, nil); err == nil ||
			!strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v; want an error saying %q", c.name, err, c.says)
		}
	}
}
