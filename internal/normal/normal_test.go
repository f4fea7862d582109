package normal

import (
	"math"
	"testing"
)

func TestMillsIsSmooth(t *testing.T) {
	// M' = x M - 1 everywhere; the two ways to compute M meet at 4.
	for _, x := range []float64{-5, 0, 1, 3.999, 4, 4.001, 10, 37, 1e3, 1e8} {
		h := 1e-4 * max(1, math.Abs(x))
		slope := (Mills(x+h) - Mills(x-h)) / (2 * h)
		want := x*Mills(x) - 1
		if x >= 37 {
			want = -1/(x*x) + 3/(x*x*x*x) // x M - 1 has no digits left there
		}
		if math.Abs(slope-want) > 1e-5*math.Abs(want) {
			t.Errorf("slope of Mills' ratio at %v = %v, want %v", x, slope, want)
		}
	}
	if left, at := Mills(math.Nextafter(4, 0)), Mills(4); math.Abs(left-at) > 3e-15*at {
		t.Errorf("Mills' ratio left of 4 = %v, at 4 %v", left, at)
	}
}

// Both tails at once are the tails, in every bit: prices that were computed by one are compared
// with those by the other.
func TestTailsAreTheTails(t *testing.T) {
	check := func(x float64) {
		below, above := Tails(x)
		if b, a := Tail(-x), Tail(x); math.Float64bits(below) != math.Float64bits(b) ||
			math.Float64bits(above) != math.Float64bits(a) {
			t.Fatalf("tails at %v are %v and %v, want %v and %v", x, below, above, b, a)
		}
	}
	edge := 1.25 * math.Sqrt2
	for _, x := range []float64{0, math.Inf(1), math.Inf(-1), edge, -edge, math.Nextafter(edge, 2),
		math.Nextafter(edge, 1), 28, 50, 1e300, math.SmallestNonzeroFloat64} {
		check(x)
		check(-x)
	}
	for x := -45.0; x < 45; x += 0.000917 {
		check(x)
	}
	if below, above := Tails(math.NaN()); below == below || above == above {
		t.Errorf("tails at no number are %v and %v", below, above)
	}
}
