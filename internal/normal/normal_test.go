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
