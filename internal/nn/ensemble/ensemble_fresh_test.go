package ensemble

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/conclave-dp/conclave/internal/nn"
	"github.com/conclave-dp/conclave/internal/nn/losses"
	"github.com/conclave-dp/conclave/internal/nn/nntest"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// round is what models are trained on and asked about.
type round struct {
	real               []Examples
	generated, asked   []float32
	classes, askedOf   []int
	steps, batch, seed int
}

// drawRound draws a round in which some models have no records of a class, and in
// some rounds nothing is generated of the last one.
func drawRound(e *Ensemble, rng *rand.Rand, seed int) round {
	r := round{steps: 1 + rng.IntN(3), batch: []int{2, 10}[seed%2], seed: seed}
	for range e.spec.Models {
		var of Examples
		for range e.spec.Classes {
			of.ByClass = append(of.ByClass, images(rng, e, rng.IntN(6)))
		}
		r.real = append(r.real, of)
	}
	n, m := []int{9, 0, 4}[seed%3], []int{5, 1, 0}[rng.IntN(3)]
	r.generated, r.asked = images(rng, e, n), images(rng, e, m)
	for range n {
		r.classes = append(r.classes, rng.IntN(max(1, e.spec.Classes-seed/2%2)))
	}
	for range m {
		r.askedOf = append(r.askedOf, rng.IntN(e.spec.Classes))
	}
	return r
}

// collected are the gradients of all models of a call that visits each.
func collected(t *testing.T, models int, call func(visit func(model int, dx []float32)) error) [][]float32 {
	t.Helper()
	all := make([][]float32, models)
	var mu sync.Mutex
	testkit.Must(t, call(func(model int, dx []float32) {
		mu.Lock()
		defer mu.Unlock()
		if all[model] != nil {
			t.Errorf("model %d was visited twice", model)
		}
		all[model] = append([]float32{}, dx...)
	}))
	for i, dx := range all {
		if dx == nil {
			t.Fatalf("model %d was not visited", i)
		}
	}
	return all
}

// trainGradients makes the call under test.
func trainGradients(t *testing.T, e *Ensemble, r round, loss losses.Loss) [][]float32 {
	t.Helper()
	return collected(t, e.spec.Models, func(visit func(int, []float32)) error {
		return e.TrainGradients(r.real, r.generated, r.classes, r.steps, r.batch, r.asked, r.askedOf, loss, visit)
	})
}

func sameRows(a, b [][]float32) bool {
	return slices.EqualFunc(a, b, func(x, y []float32) bool { return slices.Equal(x, y) })
}

func mustEnsemble(t testing.TB, spec Spec) *Ensemble {
	t.Helper()
	e, err := New(spec)
	testkit.Must(t, err)
	return e
}

// Models that are asked once they are trained answer as if all had been trained first,
// bit by bit, over rounds.
func TestTrainGradientsIsTrainAndThenInputGradients(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for name, spec := range architectures(11) {
		t.Run(name, func(t *testing.T) {
			spec.Seed = 3
			one, two := mustEnsemble(t, spec), mustEnsemble(t, spec)
			rng := rand.New(rand.NewPCG(4, 53))
			for seed := range 8 {
				r := drawRound(one, rng, seed)
				loss := []losses.Loss{nil, losses.KLWGAN}[seed%2]
				runtime.GOMAXPROCS(1 + rng.IntN(4))
				got := trainGradients(t, one, r, loss)
				runtime.GOMAXPROCS(1 + rng.IntN(4))
				testkit.Must(t, two.Train(r.real, r.generated, r.classes, r.steps, r.batch))
				want := collected(t, spec.Models, func(visit func(int, []float32)) error {
					return two.InputGradients(r.asked, r.askedOf, loss, visit)
				})
				if !sameRows(got, want) {
					t.Fatalf("round %d: other gradients", seed)
				}
				for i, p := range two.State() {
					if !slices.Equal(one.State()[i].Value, p.Value) {
						t.Fatalf("round %d: other %s", seed, p.Name)
					}
				}
				if one.Steps() != two.Steps() || one.Steps() == 0 {
					t.Fatalf("round %d: %d steps, want %d", seed, one.Steps(), two.Steps())
				}
			}
		})
	}
}

func fresh(spec Spec, seed, start uint64) Spec {
	spec.Fresh, spec.Seed, spec.Start = true, seed, start
	return spec
}

// Fresh models do what networks of their own do that begin with the same weights.
func TestFreshModelsAreNewNetworks(t *testing.T) {
	for name, spec := range architectures(5) {
		t.Run(name, func(t *testing.T) {
			spec := fresh(spec, 7, 8)
			e := mustEnsemble(t, spec)
			rng := rand.New(rand.NewPCG(5, 54))
			for seed := range 6 {
				r := drawRound(e, rng, seed)
				got := trainGradients(t, e, r, nil)
				for i := range spec.Models {
					for c := range spec.Classes {
						a := standAlone(t, e, 0, 0) // the weights that all begin with
						generated, _ := ofClass(r.generated, r.classes, c, e.In())
						draw := rand.New(rand.NewPCG(spec.Seed, uint64(i*spec.Classes+c)))
						for range r.steps {
							if len(r.real[i].ByClass[c]) == 0 || len(generated) == 0 {
								break
							}
							for k, rows := range [][]float32{r.real[i].ByClass[c], generated} {
								a.net.Backward(a.gradient(windowOf(rows, e.In(), r.batch, draw), k == 0, 0.5),
									true, false)
							}
							a.adam.Step()
						}
						rows, at := ofClass(r.asked, r.askedOf, c, e.In())
						a.loss = losses.Logistic
						dx := a.net.Backward(a.gradient(rows, true, float32(len(at))), false, true)
						for k, j := range at {
							close32(t, fmt.Sprintf("round %d, gradient of model %d, class %d", seed, i, c),
								got[i][j*e.In():(j+1)*e.In()], dx[k*e.In():(k+1)*e.In()])
						}
					}
				}
			}
		})
	}
}

// What a call gives depends neither on the calls before it nor on the processors.
func TestFreshModelsForget(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for name, spec := range architectures(40) {
		t.Run(name, func(t *testing.T) {
			spec := fresh(spec, 1, 2)
			rng := rand.New(rand.NewPCG(7, 56))
			e := mustEnsemble(t, spec)
			var rounds []round
			var want [][][]float32
			for seed := range 6 {
				r := drawRound(e, rng, seed)
				runtime.GOMAXPROCS(1)
				rounds, want = append(rounds, r), append(want, trainGradients(t, mustEnsemble(t, spec), r, nil))
			}
			for range 12 {
				runtime.GOMAXPROCS(1 + rng.IntN(6))
				k := rng.IntN(len(rounds))
				if !sameRows(trainGradients(t, e, rounds[k], nil), want[k]) {
					t.Fatalf("round %d is answered otherwise after other rounds", k)
				}
				if e.Steps() != 0 {
					t.Fatalf("%d steps of models that begin anew", e.Steps())
				}
			}
		})
	}
}

// All models and classes begin alike, by Start and not by Seed.
func TestFreshModelsBeginAlike(t *testing.T) {
	for name, spec := range architectures(9) {
		t.Run(name, func(t *testing.T) {
			begin := func(seed, start uint64) []float32 {
				e := mustEnsemble(t, fresh(spec, seed, start))
				r := drawRound(e, rand.New(rand.NewPCG(8, 57)), 0)
				r.generated, r.classes, r.askedOf = nil, nil, make([]int, 4) // nothing to learn from
				r.asked = images(rand.New(rand.NewPCG(1, 58)), e, 4)
				all := trainGradients(t, e, r, nil)
				for i := range all {
					if !slices.Equal(all[i], all[0]) {
						t.Errorf("model %d begins otherwise than model 0", i)
					}
				}
				r.askedOf = slices.Repeat([]int{spec.Classes - 1}, 4)
				if other := trainGradients(t, e, r, nil); !slices.Equal(other[0], all[0]) {
					t.Error("the classes begin with other weights")
				}
				return all[0]
			}
			if !slices.Equal(begin(1, 5), begin(2, 5)) {
				t.Error("the first weights depend on the seed")
			}
			if slices.Equal(begin(1, 5), begin(1, 6)) {
				t.Error("the first weights do not depend on the start")
			}
		})
	}
}

// Nothing is kept of fresh models that could be trained further, asked or saved.
func TestFreshModelsRefuse(t *testing.T) {
	e := mustEnsemble(t, fresh(critics(2, 2, 1, 3), 1, 1))
	ok := []Examples{{ByClass: [][]float32{{1, 2}}}, {ByClass: [][]float32{{3, 4}}}}
	x, classes := []float32{1, 2}, []int{0}
	visit := func(int, []float32) { t.Error("a model was visited") }
	for name, err := range map[string]error{
		"train":     e.Train(ok, x, classes, 1, 1),
		"score":     e.Score(make([]float32, 2), x, classes),
		"gradients": e.InputGradients(x, classes, nil, visit),
		"examples":  e.TrainGradients(ok[:1], x, classes, 1, 1, x, classes, nil, visit),
		"no steps":  e.TrainGradients(ok, x, classes, 0, 1, x, classes, nil, visit),
		"no batch":  e.TrainGradients(ok, x, classes, 1, 0, x, classes, nil, visit),
		"a class":   e.TrainGradients(ok, x, []int{1}, 1, 1, x, classes, nil, visit),
		"asked of":  e.TrainGradients(ok, x, classes, 1, 1, x, []int{1}, nil, visit),
		"ragged":    e.TrainGradients(ok, x, classes, 1, 1, x[:1], classes, nil, visit),
	} {
		if err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if len(e.State()) != 0 || e.Steps() != 0 {
		t.Errorf("a state of %v after %d steps", e.State(), e.Steps())
	}
}

// A fresh model costs nothing: a million of them are one network, and training them
// allocates as much as training a hundred.
func TestFreshModelsTakeNoMemory(t *testing.T) {
	spec := fresh(Spec{
		Models: 1 << 20, Classes: 10, Input: nn.Vector(784), Rate: 1e-3,
		Layers: []nn.Spec{nn.Dense{Out: 128}, nn.LeakyReLU(leak), nn.Dense{Out: 1}},
	}, 1, 1)
	e := mustEnsemble(t, spec)
	if want := 784*128 + 128 + 128 + 1; len(e.w) != want || e.m != nil || e.v != nil {
		t.Errorf("%d, %d and %d numbers, want those of one network, %d", len(e.w), len(e.m), len(e.v), want)
	}
	if nntest.Raced {
		t.Skip("the race detector allocates")
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	allocated := func(models int) uint64 {
		spec := fresh(critics(models, 50, 2, 20), 1, 1)
		e := mustEnsemble(t, spec)
		rng := rand.New(rand.NewPCG(9, 59))
		r := round{steps: 1, batch: 8, real: make([]Examples, models)}
		of := Examples{ByClass: [][]float32{images(rng, e, 3), images(rng, e, 3)}}
		for i := range r.real {
			r.real[i] = of
		}
		r.generated, r.asked, r.classes, r.askedOf = images(rng, e, 6), images(rng, e, 6), []int{0, 0, 0, 1, 1,
			1}, []int{0, 1, 0, 1, 0, 1}
		call := func() {
			testkit.Must(t, e.TrainGradients(r.real, r.generated, r.classes, r.steps, r.batch, r.asked, r.askedOf, nil,
				func(int, []float32) {}))
		}
		call()
		return testkit.Allocated(func() {
			for range 3 {
				call()
			}
		})
	}
	// 4,900 models of 1,061 numbers would be 62 MB in three calls. A garbage collection in
	// between empties the pools, and the calls then allocate their workspace of some 1.3 MB again.
	few, many := allocated(100), allocated(5000)
	if many > few+10_000_000 {
		t.Errorf("5,000 models allocate %d bytes, 100 models %d", many, few)
	}
}
