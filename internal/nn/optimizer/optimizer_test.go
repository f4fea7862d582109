package optimizer

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/conclave-dp/conclave/internal/nn/nntest"
	"github.com/conclave-dp/conclave/internal/nn/safetensors"
	"github.com/conclave-dp/conclave/internal/nn/tensor"
	"github.com/conclave-dp/conclave/internal/testkit"
)

var (
	_ Optimizer = (*Adam)(nil)
	_ Optimizer = (*SGD)(nil)
)

// Three steps of each optimizer against its formula in float64.
func TestOptimizersFollowTheirFormulas(t *testing.T) {
	const rate, decay = 0.1, 0.2
	for name, c := range map[string]struct {
		build func(params []tensor.Param) Optimizer
		step  func(w, g float64, state *[2]float64, k int) float64
	}{
		"sgd": {
			func(p []tensor.Param) Optimizer { s := NewSGD(p, rate); s.Momentum, s.Decay = 0.9, decay; return s },
			func(w, g float64, m *[2]float64, _ int) float64 {
				m[0] = 0.9*m[0] + g
				return (1-rate*decay)*w - rate*m[0]
			},
		},
		"adam": {
			func(p []tensor.Param) Optimizer { a := NewAdam(p, rate); a.Decay = decay; return a },
			func(w, g float64, m *[2]float64, k int) float64 {
				m[0], m[1] = 0.5*m[0]+0.5*g, 0.9*m[1]+0.1*g*g
				return (1-rate*decay)*w - rate*m[0]/(1-math.Pow(0.5,
					float64(k)))/(math.Sqrt(m[1]/(1-math.Pow(0.9, float64(k))))+1e-8)
			},
		},
	} {
		rng := rand.New(rand.NewPCG(41, 42))
		p := tensor.Param{Name: "w", Shape: []int{9}, Value: nntest.Normals(rng, 9), Grad: make([]float32, 9)}
		want, state := nntest.Widened(p.Value), make([][2]float64, 9)
		opt := c.build([]tensor.Param{p})
		for k := 1; k <= 3; k++ {
			copy(p.Grad, nntest.Normals(rng, 9))
			for i := range want {
				want[i] = c.step(want[i], float64(p.Grad[i]), &state[i], k)
			}
			opt.Step()
		}
		nntest.Close(t, name, p.Value, want, 1e-5)
		if slices.ContainsFunc(p.Grad, func(g float32) bool { return g != 0 }) || opt.Steps() != 3 {
			t.Errorf("%s: gradient %v after %d steps", name, p.Grad, opt.Steps())
		}
	}
}

// A step from a checkpoint is the step that would have come.
func TestOptimizersGoOnFromACheckpoint(t *testing.T) {
	for name, build := range map[string]func(p []tensor.Param) Optimizer{
		"sgd":  func(p []tensor.Param) Optimizer { s := NewSGD(p, 0.1); s.Momentum = 0.5; return s },
		"adam": func(p []tensor.Param) Optimizer { return NewAdam(p, 0.1) },
	} {
		param := func(v float32) []tensor.Param {
			return []tensor.Param{{Name: "w", Shape: []int{1}, Value: []float32{v}, Grad: []float32{0.3}}}
		}
		p := param(1)
		first := build(p)
		first.Step()
		q := param(p[0].Value[0])
		second := build(q)
		set := safetensors.New()
		set.Add("", first.State())
		testkit.Must(t, set.CopyTo("", second.State()))
		second.SetSteps(first.Steps())
		p[0].Grad[0], q[0].Grad[0] = 0.7, 0.7
		first.Step()
		second.Step()
		if p[0].Value[0] != q[0].Value[0] {
			t.Errorf("%s: %v, want %v", name, q[0].Value[0], p[0].Value[0])
		}
	}
}

func TestAdamFindsAMinimum(t *testing.T) {
	p := tensor.Param{Name: "x", Shape: []int{2}, Value: []float32{3, -2}, Grad: make([]float32, 2)}
	a := NewAdam([]tensor.Param{p}, 0.05)
	for range 500 {
		p.Grad[0], p.Grad[1] = 2*(p.Value[0]-1), 20*(p.Value[1]+1)
		a.Step()
	}
	if math.Abs(float64(p.Value[0]-1)) > 0.02 || math.Abs(float64(p.Value[1]+1)) > 0.02 {
		t.Errorf("ended at %v, want [1 -1]", p.Value)
	}
	if p.Grad[0] != 0 || a.Steps() != 500 {
		t.Errorf("gradient %v after %d steps", p.Grad, a.Steps())
	}
}

// TestAdamFirstStep checks the bias correction: whatever the gradient's size,
// the first step is the learning rate.
func TestAdamFirstStep(t *testing.T) {
	for _, g := range []float32{1e-3, 1, 1e4} {
		p := tensor.Param{Value: []float32{0}, Grad: []float32{g}}
		NewAdam([]tensor.Param{p}, 0.1).Step()
		if math.Abs(float64(p.Value[0])+0.1) > 1e-4 {
			t.Errorf("gradient %v: first step to %v, want -0.1", g, p.Value[0])
		}
	}
}
