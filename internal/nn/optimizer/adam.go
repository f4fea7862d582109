package optimizer

import (
	"github.com/conclave-dp/conclave/internal/nn/kernel/vector"
	"github.com/conclave-dp/conclave/internal/nn/tensor"
)

// Adam is the optimizer of Kingma and Ba 2015 with decoupled weight decay
// (Loshchilov and Hutter 2019). Its zero moments are corrected for bias.
type Adam struct {
	Rate, Beta1, Beta2, Epsilon, Decay float64

	params []tensor.Param
	m, v   [][]float32
	step   int
}

// NewAdam returns an optimizer for params with beta1, beta2 as usual for GANs
// (0.5, 0.9).
func NewAdam(params []tensor.Param, rate float64) *Adam {
	return &Adam{Rate: rate, Beta1: 0.5, Beta2: 0.9, Epsilon: 1e-8, params: params, m: moment(params),
		v: moment(params)}
}

// Step moves the parameters against their gradients and clears these.
func (a *Adam) Step() {
	a.step++
	step := vector.AdamStep{Rate: a.Rate, Beta1: a.Beta1, Beta2: a.Beta2, Epsilon: a.Epsilon, Decay: a.Decay}.At(a.step)
	for i, p := range a.params {
		vector.Adam(p.Value, a.m[i], a.v[i], p.Grad, step)
		clear(p.Grad)
	}
}

// State lists the optimizer's tensors for a checkpoint, with SetSteps and Steps
// for its counter.
func (a *Adam) State() []tensor.Param {
	var ps []tensor.Param
	for i, p := range a.params {
		ps = append(ps,
			tensor.Param{Name: p.Name + ".m", Shape: p.Shape, Value: a.m[i]},
			tensor.Param{Name: p.Name + ".v", Shape: p.Shape, Value: a.v[i]})
	}
	return ps
}

// Steps returns the number of steps taken.
func (a *Adam) Steps() int { return a.step }

// SetSteps restores the number of steps taken.
func (a *Adam) SetSteps(n int) { a.step = n }
