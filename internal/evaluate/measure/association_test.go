package measure

import (
	"errors"
	"math"
	"testing"

	"github.com/conclave-dp/conclave/internal/testkit"
)

func TestCramersV(t *testing.T) {
	for _, c := range []struct {
		name   string
		a, b   []int32
		weight []float64
		want   float64
	}{
		{"one follows from the other", []int32{0, 1, 2, 0, 1, 2}, []int32{2, 0, 1, 2, 0, 1}, nil, 1},
		{"independent", []int32{0, 0, 1, 1}, []int32{0, 1, 0, 1}, nil, 0},
		// Cells 30, 10, 10, 30: chi^2 = 80 (30*30-10*10)^2 / 40^4 = 20, V = sqrt(20/80).
		{"between, by weights", []int32{0, 0, 1, 1}, []int32{0, 1, 0, 1}, []float64{30, 10, 10, 30}, 0.5},
	} {
		got, err := CramersV(c.a, c.b, [2]int{4, 3}, c.weight)
		testkit.Must(t, err)
		if math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	for _, c := range []struct {
		a, b []int32
		want error
	}{{nil, nil, ErrNoValues}, {[]int32{1, 1}, []int32{0, 1}, ErrConstant}} {
		if _, err := CramersV(c.a, c.b, [2]int{4, 3}, nil); !errors.Is(err, c.want) {
			t.Errorf("%v and %v: %v, want %v", c.a, c.b, err, c.want)
		}
	}
	if _, err := CramersV([]int32{4}, []int32{0}, [2]int{4, 3}, nil); err == nil {
		t.Error("a category that there is none of was taken")
	}
}

func TestCorrelationRatio(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		name    string
		numbers []float64
		weight  []float64
		want    float64
	}{
		{"the category says the number", []float64{1, 1, 5, 5}, nil, 1},
		{"the same means", []float64{0, 2, 0, 2}, nil, 0},
		// Means 1 and 3 about 2, numbers 0, 2, 2, 4: 4 of 8.
		{"between", []float64{0, 2, 2, 4}, nil, math.Sqrt(0.5)},
		{"an empty cell", []float64{1, nan, 5, 5}, nil, 1},
		{"a row without weight", []float64{1, 9, 5, 5}, []float64{1, 0, 1, 1}, 1},
		{"huge numbers", []float64{-1e308, -1e308, 1e308, 1e308}, nil, 1},
	} {
		got, err := CorrelationRatio([]int32{0, 0, 1, 1}, 2, c.numbers, c.weight)
		testkit.Must(t, err)
		if math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	for _, c := range []struct {
		numbers []float64
		want    error
	}{{[]float64{nan, nan, nan, nan}, ErrNoValues}, {[]float64{3, 3, 3, 3}, ErrConstant},
		{[]float64{1, 2, nan, nan}, ErrConstant}} {
		if _, err := CorrelationRatio([]int32{0, 0, 1, 1}, 2, c.numbers, nil); !errors.Is(err, c.want) {
			t.Errorf("%v: %v, want %v", c.numbers, err, c.want)
		}
	}
}
