package nn

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

var (
	_ Optimizer = (*Adam)(nil)
	_ Optimizer = (*SGD)(nil)
	_ Optimizer = (*RMSprop)(nil)
)

// Three steps of each optimizer against its formula in float64.
func TestOptimizersFollowTheirFormulas(t *testing.T) {
	const rate, decay = 0.1, 0.2
	for name, c := range map[string]struct {
		build func(params []Param) Optimizer
		step  func(w, g float64, state *[2]float64, k int) float64
	}{
		"sgd": {
			func(p []Param) Optimizer { s := NewSGD(p, rate); s.Momentum, s.Decay = 0.9, decay; return s },
			func(w, g float64, m *[2]float64, _ int) float64 {
				m[0] = 0.9*m[0] + g
				return (1-rate*decay)*w - rate*m[0]
			},
		},
		"rmsprop": {
			func(p []Param) Optimizer { r := NewRMSprop(p, rate); r.Decay = decay; return r },
			func(w, g float64, m *[2]float64, _ int) float64 {
				m[0] = 0.99*m[0] + 0.01*g*g
				return (1-rate*decay)*w - rate*g/(math.Sqrt(m[0])+1e-8)
			},
		},
		"adam": {
			func(p []Param) Optimizer { a := NewAdam(p, rate); a.Decay = decay; return a },
			func(w, g float64, m *[2]float64, k int) float64 {
				m[0], m[1] = 0.5*m[0]+0.5*g, 0.9*m[1]+0.1*g*g
				return (1-rate*decay)*w - rate*m[0]/(1-math.Pow(0.5, float64(k)))/(math.Sqrt(m[1]/(1-math.Pow(0.9, float64(k))))+1e-8)
			},
		},
	} {
		rng := rand.New(rand.NewPCG(41, 42))
		p := Param{Name: "w", Shape: []int{9}, Value: normals(rng, 9), Grad: make([]float32, 9)}
		want, state := widened(p.Value), make([][2]float64, 9)
		opt := c.build([]Param{p})
		for k := 1; k <= 3; k++ {
			copy(p.Grad, normals(rng, 9))
			for i := range want {
				want[i] = c.step(want[i], float64(p.Grad[i]), &state[i], k)
			}
			opt.Step()
		}
		closeTo(t, name, p.Value, want, 1e-5)
		if slices.ContainsFunc(p.Grad, func(g float32) bool { return g != 0 }) || opt.Steps() != 3 {
			t.Errorf("%s: gradient %v after %d steps", name, p.Grad, opt.Steps())
		}
	}
}

// A step from a checkpoint is the step that would have come.
func TestOptimizersGoOnFromACheckpoint(t *testing.T) {
	for name, build := range map[string]func(p []Param) Optimizer{
		"sgd":     func(p []Param) Optimizer { s := NewSGD(p, 0.1); s.Momentum = 0.5; return s },
		"adam":    func(p []Param) Optimizer { return NewAdam(p, 0.1) },
		"rmsprop": func(p []Param) Optimizer { return NewRMSprop(p, 0.1) },
	} {
		param := func(v float32) []Param {
			return []Param{{Name: "w", Shape: []int{1}, Value: []float32{v}, Grad: []float32{0.3}}}
		}
		p := param(1)
		first := build(p)
		first.Step()
		q := param(p[0].Value[0])
		second := build(q)
		set := NewTensors()
		set.Add("", first.State())
		if err := set.CopyTo("", second.State()); err != nil {
			t.Fatal(err)
		}
		second.SetSteps(first.Steps())
		p[0].Grad[0], q[0].Grad[0] = 0.7, 0.7
		first.Step()
		second.Step()
		if p[0].Value[0] != q[0].Value[0] {
			t.Errorf("%s: %v, want %v", name, q[0].Value[0], p[0].Value[0])
		}
	}
}
