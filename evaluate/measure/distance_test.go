package measure

import (
	"math"
	"testing"
)

func TestDistancesByHand(t *testing.T) {
	for _, c := range []struct {
		a, b   []float64
		ks, tv float64
	}{
		{[]float64{1, 2, 3}, []float64{1, 2, 3}, 0, 0},
		{[]float64{1, 1, 1}, []float64{2, 2}, 1, 1},
		{[]float64{1, 2, 2, 3}, []float64{2, 3, 3, 3}, 0.5, 0.5},
		{[]float64{5}, []float64{5, 5, 5, 6}, 0.25, 0.25},
		{[]float64{1, 4}, []float64{2, 3}, 0.5, 1},
	} {
		if got := KolmogorovSmirnov(append([]float64(nil), c.a...), append([]float64(nil), c.b...)); math.Abs(got-c.ks) > 1e-12 {
			t.Errorf("KS of %v and %v is %v, want %v", c.a, c.b, got, c.ks)
		}
		if got := TotalVariation(c.a, c.b); math.Abs(got-c.tv) > 1e-12 {
			t.Errorf("TV of %v and %v is %v, want %v", c.a, c.b, got, c.tv)
		}
	}
}
