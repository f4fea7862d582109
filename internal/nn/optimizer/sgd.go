package optimizer

import (
	"github.com/conclave-dp/conclave/internal/nn/kernel/vector"
	"github.com/conclave-dp/conclave/internal/nn/tensor"
)

// SGD is gradient descent with momentum (0 for none) and decoupled weight decay:
// m = Momentum m + g, w = (1 - Rate Decay) w - Rate m.
type SGD struct {
	Rate, Momentum, Decay float64

	params []tensor.Param
	m      [][]float32
	step   int
}

// NewSGD returns an optimizer for params without momentum.
func NewSGD(params []tensor.Param, rate float64) *SGD {
	return &SGD{Rate: rate, params: params, m: moment(params)}
}

// Step moves the parameters against their gradients and clears these.
func (s *SGD) Step() {
	s.step++
	step := vector.SGDStep{Rate: s.Rate, Momentum: s.Momentum, Decay: s.Decay}
	for i, p := range s.params {
		vector.SGD(p.Value, s.m[i], p.Grad, step)
		clear(p.Grad)
	}
}

// State lists the optimizer's tensors for a checkpoint.
func (s *SGD) State() []tensor.Param { return states(s.params, ".m", s.m) }

// Steps returns the number of steps taken.
func (s *SGD) Steps() int { return s.step }

// SetSteps restores the number of steps taken.
func (s *SGD) SetSteps(n int) { s.step = n }
