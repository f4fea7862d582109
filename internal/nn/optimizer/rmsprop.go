package optimizer

import (
	"github.com/conclave-dp/conclave/internal/nn/kernel/vector"
	"github.com/conclave-dp/conclave/internal/nn/tensor"
)

// RMSprop divides gradients by the root of the moving average of their squares
// (Tieleman and Hinton 2012), with decoupled weight decay:
// v = Memory v + (1-Memory) g^2, w = (1 - Rate Decay) w - Rate g / (sqrt(v) + Epsilon).
type RMSprop struct {
	Rate, Memory, Epsilon, Decay float64

	params []tensor.Param
	v      [][]float32
	step   int
}

// NewRMSprop returns an optimizer for params with a memory of 0.99.
func NewRMSprop(params []tensor.Param, rate float64) *RMSprop {
	return &RMSprop{Rate: rate, Memory: 0.99, Epsilon: 1e-8, params: params, v: moment(params)}
}

// Step moves the parameters against their gradients and clears these.
func (r *RMSprop) Step() {
	r.step++
	step := vector.RMSPropStep{Rate: r.Rate, Beta: r.Memory, Epsilon: r.Epsilon, Decay: r.Decay}
	for i, p := range r.params {
		vector.RMSProp(p.Value, r.v[i], p.Grad, step)
		clear(p.Grad)
	}
}

// State lists the optimizer's tensors for a checkpoint.
func (r *RMSprop) State() []tensor.Param { return states(r.params, ".v", r.v) }

// Steps returns the number of steps taken.
func (r *RMSprop) Steps() int { return r.step }

// SetSteps restores the number of steps taken.
func (r *RMSprop) SetSteps(n int) { r.step = n }
