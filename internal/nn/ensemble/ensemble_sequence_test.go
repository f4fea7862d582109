package ensemble

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/conclave-dp/conclave/internal/nn/losses"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// ensembleCalls makes calls of all kinds, with any number of records of a class,
// none and one included, and compares each with networks of their own. It returns
// all results.
func ensembleCalls(t *testing.T, spec Spec, seed uint64, procs func() int) (bits []float32) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	rng := rand.New(rand.NewPCG(seed, 51))
	e, err := New(spec)
	testkit.Must(t, err)
	nets := make([][]*alone, spec.Models)
	for i := range nets {
		for c := range spec.Classes {
			nets[i] = append(nets[i], standAlone(t, e, i, c))
		}
	}
	for range 8 {
		runtime.GOMAXPROCS(procs())
		n := []int{0, 1, 3, 70}[rng.IntN(4)]
		x, classes := images(rng, e, n), make([]int, n)
		for i := range classes {
			classes[i] = rng.IntN(spec.Classes)
			if seed%3 == 0 {
				classes[i] = 0
			}
		}
		switch rng.IntN(3) {
		case 0:
			real, steps, batch := make([]Examples, spec.Models), 1+rng.IntN(3), []int{1, 4, 10}[rng.IntN(3)]
			for i := range real {
				for range spec.Classes {
					real[i].ByClass = append(real[i].ByClass, images(rng, e, rng.IntN(6)))
				}
			}
			at := e.Steps()
			testkit.Must(t, e.Train(real, x, classes, steps, batch))
			if e.Steps() != at+steps {
				t.Errorf("%d steps after %d more than %d", e.Steps(), steps, at)
			}
			for i := range nets {
				for c, a := range nets[i] {
					generated, _ := ofClass(x, classes, c, e.In())
					// The windows are those of the documented random numbers.
					draw := rand.New(rand.NewPCG(spec.Seed^uint64(at)<<20, uint64(i*spec.Classes+c)))
					a.adam.SetSteps(at)
					for range steps {
						if len(real[i].ByClass[c]) == 0 || len(generated) == 0 {
							continue
						}
						for k, rows := range [][]float32{real[i].ByClass[c], generated} {
							rows = windowOf(rows, e.In(), batch, draw)
							a.net.Backward(a.gradient(rows, k == 0, 0.5), true, false)
						}
						a.adam.Step()
					}
					close32(t, fmt.Sprintf("weights of model %d, class %d", i, c), e.params(e.w, i, c), a.weights())
				}
			}
			bits = append(bits, e.w...)
		case 1:
			scores := make([]float32, spec.Models*n)
			testkit.Must(t, e.Score(scores, x, classes))
			for i := range nets {
				for c, a := range nets[i] {
					rows, at := ofClass(x, classes, c, e.In())
					want := a.net.Forward(rows, len(at))
					for k, j := range at {
						close32(t, fmt.Sprintf("score of model %d, class %d", i, c), scores[i*n+j:][:1], want[k:k+1])
					}
				}
			}
			bits = append(bits, scores...)
		case 2:
			gradients := make([][]float32, spec.Models)
			var mu sync.Mutex
			testkit.Must(t, e.InputGradients(x, classes, losses.KLWGAN, func(model int, dx []float32) {
				mu.Lock()
				defer mu.Unlock()
				if gradients[model] != nil {
					t.Errorf("model %d was visited twice", model)
				}
				gradients[model] = append([]float32{}, dx...)
			}))
			for i := range nets {
				if len(gradients[i]) != len(x) || gradients[i] == nil {
					t.Fatalf("model %d: %d gradients of %d numbers", i, len(gradients[i]), len(x))
				}
				for c, a := range nets[i] {
					rows, at := ofClass(x, classes, c, e.In())
					grad := make([]float32, len(at))
					losses.KLWGAN(grad, a.net.Forward(rows, len(at)), true)
					for k := range grad {
						grad[k] *= float32(len(at))
					}
					dx := a.net.Backward(grad, false, true)
					for k, j := range at {
						close32(t, fmt.Sprintf("gradient of model %d, class %d", i, c),
							gradients[i][j*e.In():(j+1)*e.In()], dx[k*e.In():(k+1)*e.In()])
					}
				}
				bits = append(bits, gradients[i]...)
			}
		}
	}
	return bits
}

// ofClass returns the records of a class and where they stood.
func ofClass(x []float32, classes []int, class, in int) (rows []float32, at []int) {
	for i, c := range classes {
		if c == class {
			rows, at = append(rows, x[i*in:(i+1)*in]...), append(at, i)
		}
	}
	return rows, at
}

func windowOf(rows []float32, in, batch int, rng *rand.Rand) (window []float32) {
	n := len(rows) / in
	if n <= batch {
		return rows
	}
	at := rng.IntN(n)
	for i := range batch {
		j := (at + i) % n
		window = append(window, rows[j*in:(j+1)*in]...)
	}
	return window
}

// Calls in any order, on processors that come and go, do what networks of their
// own do, to the same bits on one processor.
func TestEnsembleCallsInAnyOrder(t *testing.T) {
	for name, spec := range architectures(13) {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(4) {
				spec.Seed = seed
				rng := rand.New(rand.NewPCG(seed, 52))
				one := ensembleCalls(t, spec, seed, func() int { return 1 })
				if many := ensembleCalls(t, spec, seed, func() int { return 1 + rng.IntN(6) }); !slices.Equal(one,
					many) {
					t.Error("several processors gave other bits than one")
				}
			}
		})
	}
}
