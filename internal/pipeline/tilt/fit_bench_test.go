package tilt

import (
	"context"
	"testing"

	"github.com/conclave-dp/conclave/internal/pipeline"
)

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
