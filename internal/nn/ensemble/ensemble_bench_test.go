package ensemble

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/conclave-dp/conclave/internal/nn/nntest"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// teachers are models of an ensemble with one hidden layer, 64 real and 64
// generated records each.
func teachers(t testing.TB, models, features, hidden int) (*Ensemble, []Examples, []float32, []int) {
	rng := rand.New(rand.NewPCG(1, 2))
	const batch = 64
	draw := func() []float32 {
		x := make([]float32, batch*features)
		for i := range x {
			x[i] = float32(rng.NormFloat64())
		}
		return x
	}
	spec := critics(models, features, 1, hidden)
	spec.Rate, spec.Decay = 1e-3, 0.01
	e, err := New(spec)
	testkit.Must(t, err)
	real := make([]Examples, models)
	for i := range real {
		real[i].ByClass = [][]float32{draw()}
	}
	return e, real, draw(), make([]int, batch)
}

// A step in the steady state needs no memory on one processor.
func TestEnsembleStepDoesNotAllocate(t *testing.T) {
	if nntest.Raced {
		t.Skip("the race detector makes pools forget, which allocates")
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // AllocsPerRun does so, too
	for name, hidden := range map[string]int{"logistic": 0, "hidden": 30} {
		e, real, generated, classes := teachers(t, 20, 30, hidden)
		step := func() {
			testkit.Must(t, e.Train(real, generated, classes, 1, 64))
		}
		if n := testing.AllocsPerRun(10, step); n != 0 {
			t.Errorf("%s: %v allocations in a step", name, n)
		}
	}
}

// BenchmarkEnsembleStep is a step of 1,000 teachers of shape 30-30-1: alone, with
// all data far away, and as one of the many that a round takes. Useful operations
// are those of the products: forward, and the weights' gradients.
func BenchmarkEnsembleStep(b *testing.B) {
	const models, features, hidden, records = 1000, 30, 30, 128
	e, real, generated, classes := teachers(b, models, features, hidden)
	for _, steps := range []int{1, 20} {
		b.Run(fmt.Sprintf("steps=%d", steps), func(b *testing.B) {
			for b.Loop() {
				testkit.Must(b, e.Train(real, generated, classes, steps, 64))
			}
			flops := float64(steps) * models * records * 2 * 2 * (features*hidden + hidden)
			b.ReportMetric(flops*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
		})
	}
}
