package tilt

import (
	"context"
	"testing"

	"github.com/conclave-dp/conclave/internal/pipeline"
)

// BenchmarkFit is one turn of the generator, 100 steps.
func BenchmarkFit(b *testing.B) {
	tr := testMover(b, 100)
	w := tr.generator().Width()
	const pool = 4096
	classes, weights, x := pipeline.Balanced(pool, 2), make([]float32, pool), make([]float32, pool*w)
	for i := range weights {
		weights[i] = 2. / pool
	}
	tr.generator().Sample(x, classes, tr.of.Rand)
	for b.Loop() {
		tr.fit(context.Background(), x, classes, weights, 100)
	}
}
