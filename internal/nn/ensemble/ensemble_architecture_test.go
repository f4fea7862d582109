package ensemble

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/conclave-dp/conclave/internal/nn"
	"github.com/conclave-dp/conclave/internal/nn/losses"
	"github.com/conclave-dp/conclave/internal/nn/nntest"
	"github.com/conclave-dp/conclave/internal/nn/optimizer"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// architectures are critics of every kind of layer, of images of 6 x 6 pixels.
func architectures(models int) map[string]Spec {
	image := nn.Shape{Height: 6, Width: 6, Channels: 1}
	conv := []nn.Spec{nn.Conv2D{Out: 3, Kernel: 3, Stride: 2, Pad: 1}, nn.LeakyReLU(leak),
		nn.Conv2D{Out: 4, Kernel: 3, Stride: 1}, nn.Tanh, nn.Dense{Out: 1}}
	return map[string]Spec{
		"logistic": {Models: models, Classes: 2, Input: image, Rate: 0.01, Layers: []nn.Spec{nn.Dense{Out: 1}}},
		"dense": {Models: models, Classes: 2, Input: image, Rate: 0.01,
			Layers: []nn.Spec{nn.Dense{Out: 9}, nn.LeakyReLU(leak), nn.Dense{Out: 1}}},
		"deep": {Models: models, Classes: 1, Input: image, Rate: 0.01, Layers: []nn.Spec{nn.Dense{Out: 9},
			nn.ReLU, nn.Dense{Out: 5}, nn.Tanh, nn.Dense{Out: 1}}, Loss: losses.Wasserstein},
		"convolution": {Models: models, Classes: 2, Input: image, Rate: 0.01, Layers: conv, Loss: losses.KLWGAN},
		"conditional": {Models: models, Classes: 1, Input: image, Rate: 0.01,
			Layers: append([]nn.Spec{nn.Embedding{Classes: 3, Width: 2}}, conv...), Loss: losses.Logistic, Decay: 0.1},
	}
}

// alone is what a model of an ensemble does, by a network and an optimizer of its
// own.
type alone struct {
	net  *nn.Network
	adam *optimizer.Adam
	loss losses.Loss
}

func standAlone(t *testing.T, e *Ensemble, model, class int) *alone {
	t.Helper()
	net, err := nn.NewNetwork(rand.New(rand.NewPCG(0, 0)), e.spec.Input, e.spec.Layers...)
	testkit.Must(t, err)
	w := e.params(e.w, model, class)
	for _, p := range net.Params() {
		w = w[copy(p.Value, w):]
	}
	a := &alone{net: net, adam: optimizer.NewAdam(net.Params(), e.spec.Rate), loss: e.spec.Loss}
	a.adam.Beta1, a.adam.Beta2, a.adam.Decay = 0.9, 0.99, e.spec.Decay
	if a.loss == nil {
		a.loss = losses.Logistic
	}
	return a
}

func (a *alone) gradient(x []float32, real bool, scale float32) []float32 {
	scores := a.net.Forward(x, len(x)/a.net.In())
	grad := make([]float32, len(scores))
	a.loss(grad, scores, real)
	for i := range grad {
		grad[i] *= scale
	}
	return grad
}

func (a *alone) weights() (w []float32) {
	for _, p := range a.net.Params() {
		w = append(w, p.Value...)
	}
	return w
}

// images draws records for an ensemble; one that is told the class gets it as its
// last number.
func images(rng *rand.Rand, e *Ensemble, n int) []float32 {
	x := nntest.Normals(rng, n*e.In())
	if e.In() == 37 {
		for i := range n {
			x[i*37+36] = float32(rng.IntN(3))
		}
	}
	return x
}

// An ensemble gives the same results as separate networks.
func TestEnsembleIsManyNetworks(t *testing.T) {
	const models, rows, steps = 9, 7, 3
	for name, spec := range architectures(models) {
		t.Run(name, func(t *testing.T) {
			spec.Seed = 5
			e, err := New(spec)
			testkit.Must(t, err)
			rng := rand.New(rand.NewPCG(1, 9))
			real := make([]Examples, models)
			for i := range real {
				for range spec.Classes {
					real[i].ByClass = append(real[i].ByClass, images(rng, e, rows))
				}
			}
			generated, classes := images(rng, e, 12), make([]int, 12)
			for i := range classes {
				classes[i] = i % spec.Classes
			}
			nets := map[[2]int]*alone{}
			for i := range models {
				for c := range spec.Classes {
					nets[[2]int{i, c}] = standAlone(t, e, i, c)
				}
			}
			if slices.Equal(e.params(e.w, 0, 0), e.params(e.w, 1, 0)) {
				t.Error("two models begin with the same weights")
			}
			testkit.Must(t, e.Train(real, generated, classes, steps, 100))
			of := func(class int) (x []float32, at []int) {
				for i, c := range classes {
					if c == class {
						x, at = append(x, generated[i*e.In():(i+1)*e.In()]...), append(at, i)
					}
				}
				return x, at
			}
			scores := make([]float32, models*len(classes))
			testkit.Must(t, e.Score(scores, generated, classes))
			gradients := make([][]float32, models)
			var mu sync.Mutex
			testkit.Must(t, e.InputGradients(generated, classes, losses.Logistic, func(model int, dx []float32) {
				mu.Lock()
				defer mu.Unlock()
				gradients[model] = slices.Clone(dx)
			}))
			for key, a := range nets {
				x, at := of(key[1])
				for range steps {
					a.net.Backward(a.gradient(real[key[0]].ByClass[key[1]], true, 0.5), true, false)
					a.net.Backward(a.gradient(x, false, 0.5), true, false)
					a.adam.Step()
				}
				close32(t, fmt.Sprint("weights of ", key), e.params(e.w, key[0], key[1]), a.weights())
				want := a.net.Forward(x, len(at))
				a.loss = losses.Logistic
				dx := a.net.Backward(a.gradient(x, true, float32(len(at))), false, true)
				for k, i := range at {
					close32(t, fmt.Sprint("score of ", key), scores[key[0]*len(classes)+i:][:1], want[k:k+1])
					close32(t, fmt.Sprint("gradient of ", key), gradients[key[0]][i*e.In():(i+1)*e.In()],
						dx[k*e.In():(k+1)*e.In()])
				}
			}
		})
	}
}

func close32(t *testing.T, what string, got, want []float32) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d numbers, want %d", what, len(got), len(want))
	}
	for i := range got {
		if math.Abs(float64(got[i]-want[i])) > 1e-5*(1+math.Abs(float64(want[i]))) {
			t.Fatalf("%s: number %d is %v, want %v", what, i, got[i], want[i])
		}
	}
}

// The gradient that InputGradients gives a record is that of its own loss.
func TestInputGradientsAgreeWithCentralDifferences(t *testing.T) {
	for name, spec := range architectures(2) {
		t.Run(name, func(t *testing.T) {
			e, err := New(spec)
			testkit.Must(t, err)
			const n = 4
			x, classes := images(rand.New(rand.NewPCG(2, 9)), e, n), []int{0, 0, 0, 0}
			tn := &nntest.Network{In: spec.Input, Specs: spec.Layers}
			if err := e.InputGradients(x, classes, nil, func(model int, dx []float32) {
				params := nntest.WidenedParams(standAlone(t, e, model, 0).net.Params())
				wide := nntest.Widened(x)
				for i := 0; i < len(x); i += 3 {
					if e.In() == 37 && i%37 == 36 {
						continue // the class
					}
					row := wide[i/e.In()*e.In() : (i/e.In()+1)*e.In()]
					want := nntest.Difference(row, i%e.In(), func() float64 {
						score := nntest.Forward(t, tn.In, tn.Specs, params, row)[0]
						return math.Log1p(math.Exp(-score))
					})
					if got := float64(dx[i]); math.Abs(got-want) > 1e-3*(1e-3+math.Abs(want)) {
						t.Errorf("model %d, number %d: gradient %v, central difference %v", model, i, got, want)
					}
				}
			}); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// A model costs three numbers a parameter: 4,000 teachers of images and their
// optimizer take 4.5 GiB. Counted with fewer.
func TestEnsembleMemory(t *testing.T) {
	const models, parameters = 40, 784*128 + 128 + 128 + 1
	e, err := New(Spec{
		Models: models, Classes: 1, Input: nn.Vector(784), Rate: 1e-3,
		Layers: []nn.Spec{nn.Dense{Out: 128}, nn.LeakyReLU(leak), nn.Dense{Out: 1}},
	})
	testkit.Must(t, err)
	numbers := 0
	for _, p := range e.State() {
		numbers += len(p.Value)
	}
	if numbers != 3*models*parameters {
		t.Errorf("%d numbers, want %d", numbers, 3*models*parameters)
	}
	const teachers, gib = 4000, 1 << 30
	if total := teachers * numbers / models * 4; total > 6*gib {
		t.Errorf("%d teachers take %.1f GiB", teachers, float64(total)/gib)
	}
}
