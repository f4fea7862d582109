package tilt

import (
	"context"
	"math"
	"testing"

	"github.com/conclave-dp/conclave/pipeline"
)

func TestSincos(t *testing.T) {
	worst := 0.0
	for a := -3000.0; a < 3000; a += 0.0137 {
		x := float32(a)
		s, c := sincos(x)
		if cosine(x) != c {
			t.Fatalf("cosine of %v is %v, sincos says %v", x, cosine(x), c)
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
		s, c := sincos(x)
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
		s, c := sincos(float32(i&1023) * 0.1)
		sum += s + c
	}
	_ = sum
}

// BenchmarkFit is one turn of the generator, 100 steps.
func BenchmarkFit(b *testing.B) {
	tr := testMover(b, Options{Steps: 100, Rate: 1e-3, Average: 0.99})
	w := tr.Generator.Width()
	const pool = 4096
	classes, weights, x := pipeline.Balanced(pool, 2), make([]float32, pool), make([]float32, pool*w)
	for i := range weights {
		weights[i] = 2. / pool
	}
	tr.Generator.Sample(x, classes, tr.rng)
	for b.Loop() {
		tr.fit(context.Background(), x, classes, weights, 100)
	}
}
