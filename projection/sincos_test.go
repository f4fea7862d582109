package projection

import (
	"math"
	"testing"
)

func TestSincos(t *testing.T) {
	worst := 0.0
	for a := -3000.0; a < 3000; a += 0.0137 {
		x := float32(a)
		s, c := Sincos(x)
		if Cosine(x) != c {
			t.Fatalf("cosine of %v is %v, Sincos says %v", x, Cosine(x), c)
		}
		wantS, wantC := math.Sincos(float64(x))
		worst = math.Max(worst, math.Max(math.Abs(float64(s)-wantS), math.Abs(float64(c)-wantC)))
	}
	// Half a unit in the last place of 3000*2/pi*half1 alone is 1.2e-4; small
	// angles are far nearer.
	if worst > 3e-4 {
		t.Errorf("off by %v", worst)
	}
	worst = 0
	for a := -60.0; a < 60; a += 0.00137 {
		x := float32(a)
		s, c := Sincos(x)
		wantS, wantC := math.Sincos(float64(x))
		worst = math.Max(worst, math.Max(math.Abs(float64(s)-wantS), math.Abs(float64(c)-wantC)))
	}
	if worst > 1e-5 {
		t.Errorf("off by %v for angles up to 60", worst)
	}
}

func BenchmarkSincos(b *testing.B) {
	var sum float32
	for i := 0; b.Loop(); i++ {
		s, c := Sincos(float32(i&1023) * 0.1)
		sum += s + c
	}
	_ = sum
}
