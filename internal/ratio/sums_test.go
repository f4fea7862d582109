package ratio

import (
	"errors"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/conclave-dp/conclave/internal/testkit"
)

// One unit's contribution is bounded in whole numbers for any records and coefficients. It agrees with the formulas, up
// to Rounding, for records as Features makes them.
func TestUnitIsBounded(t *testing.T) {
	number := rapid.OneOf(rapid.Float64Range(-3, 3), rapid.Float64(),
		rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), math.MaxFloat64, 0}))
	rapid.Check(t, func(t *rapid.T) {
		s := Steps{
			Width: rapid.IntRange(1, 8).Draw(t, "width"),
			Clip:  rapid.Float64Range(0.01, 20).Draw(t, "clip"),
			Bound: rapid.Int64Range(1, FinestBound).Draw(t, "bound"),
		}
		k := rapid.IntRange(1, 4).Draw(t, "records")
		usual := rapid.Bool().Draw(t, "usual")
		source := number
		if usual {
			source = rapid.Float64Range(-3, 3)
		}
		beta := rapid.SliceOfN(source, s.Width, s.Width).Draw(t, "beta")
		records := rapid.SliceOfN(source, k*s.Width, k*s.Width).Draw(t, "records")
		if usual {
			for r := range k {
				shorten(records[r*s.Width:(r+1)*s.Width], s.Clip)
			}
		}
		pass, err := NewPass(s, beta)
		if err != nil {
			t.Fatal(err)
		}
		if err := pass.Add(records); err != nil {
			t.Fatal(err)
		}
		steps := pass.Sums()
		if !within(steps[:s.Width], s.Bound) || steps[s.Width] != 1 {
			t.Fatalf("longer than %d steps, or not of one unit: %v", s.Bound, steps)
		}
		if !usual {
			return
		}
		sums, err := s.Decode(steps)
		if err != nil {
			t.Fatal(err)
		}
		g, h := sums.Gradient, sums.Hessian
		distance := 0.0
		at := 0
		for i := range s.Width {
			for r := range k {
				x := records[r*s.Width : (r+1)*s.Width]
				g[i] -= (1/(1+math.Exp(-dot(beta, x))) - 1) * x[i] / float64(k)
			}
			distance += g[i] * g[i]
			for j := i; j < s.Width; j++ {
				for r := range k {
					x := records[r*s.Width : (r+1)*s.Width]
					p := 1 / (1 + math.Exp(-dot(beta, x)))
					h[at] -= p * (1 - p) * x[i] * x[j] / float64(k)
				}
				if most := 1.01 * s.Clip * s.Clip / float64(s.Bound); math.Abs(h[at]) > most {
					t.Fatalf("hessian %d, %d is off by %v, more than %v", i, j, h[at], most)
				}
				at++
			}
		}
		if distance = math.Sqrt(distance); distance > s.Rounding() {
			t.Fatalf("the gradient is off by %v, more than %v", distance, s.Rounding())
		}
	})
}

// A unit's contribution does not depend on earlier ones, and a unit without records adds nothing.
func TestUnitsAddUp(t *testing.T) {
	s := Steps{Width: 2, Clip: 3, Bound: 1 << 20}
	beta := []float64{0.3, -0.7}
	a, b := []float64{1, 0.5}, []float64{0.1, 2, 1, -1}
	sum := func(units ...[]float64) (g, h []int64) { // the gradient with the number of units, and the Hessian
		pass, err := NewPass(s, beta)
		testkit.Must(t, err)
		for _, unit := range units {
			testkit.Must(t, pass.Add(unit))
		}
		sums := pass.Sums()
		return sums[:s.Width+1], sums[s.Width+1:]
	}
	g1, h1 := sum(a)
	g2, h2 := sum(b)
	g, h := sum(b, nil, a)
	for i := range g1 {
		g1[i] += g2[i]
	}
	for i := range h1 {
		if d := h[i] - h1[i] - h2[i]; d < -1 || d > 1 { // made whole once
			t.Errorf("hessian %d is %d, apart %d and %d", i, h[i], h1[i], h2[i])
		}
	}
	if !slices.Equal(g, g1) || g[s.Width] != 2 {
		t.Errorf("%v, %v; apart %v, %v", g, h, g1, h1)
	}
}

func TestSumsAreRefused(t *testing.T) {
	good := Steps{Width: 2, Clip: 1, Bound: 8}
	for _, s := range []Steps{{0, 1, 8}, {2, 0, 8}, {2, math.NaN(), 8}, {2, 1, 0}, {2, 1, FinestBound + 1}} {
		if err := s.Add(make([]int64, 2), make([]float64, 2), nil); !errors.Is(err, ErrSpec) {
			t.Errorf("%+v: %v", s, err)
		}
		if _, err := NewPass(s, make([]float64, 2)); !errors.Is(err, ErrSpec) {
			t.Errorf("a pass of %+v: %v", s, err)
		}
	}
	if _, err := NewPass(good, make([]float64, 3)); !errors.Is(err, ErrShape) {
		t.Errorf("a pass of 3 coefficients: %v", err)
	}
	for _, l := range [][3]int{{1, 2, 2}, {2, 3, 2}, {2, 2, 3}} {
		g := make([]int64, l[0])
		if err := good.Add(g, make([]float64, l[1]), make([]float64, l[2])); !errors.Is(err, ErrShape) {
			t.Errorf("%v: %v", l, err)
		}
		testkit.Same(t, "", make([]int64, l[0]), g)
	}
}
