package nn

import (
	"fmt"
	"math/rand/v2"

	"github.com/conclave-dp/conclave/internal/nn/kernel/vector"
	"github.com/conclave-dp/conclave/internal/nn/parallel"
)

// Activation is a function of each number.
type Activation int

// The activations. For a leaky rectifier see [LeakyReLU].
const (
	ReLU        Activation = iota // max(0, x)
	Tanh                          // the hyperbolic tangent
	SigmoidUnit                   // 1/(1+exp(-x))
)

// LeakyReLU is x above zero and its value times x below. The value must be above
// 0 and at most 1; GANs use 0.2.
type LeakyReLU float32

func (a Activation) build(_ *rand.Rand, in Shape, p *parallel.Pool) (layer, Shape, error) {
	if a < ReLU || a > SigmoidUnit {
		return nil, Shape{}, fmt.Errorf("activation %d is unknown", int(a))
	}
	return newActivation(a, 0, p), in, nil
}

func (a LeakyReLU) build(_ *rand.Rand, in Shape, p *parallel.Pool) (layer, Shape, error) {
	if !(a > 0 && a <= 1) {
		return nil, Shape{}, fmt.Errorf("leaky rectifier of slope %v, want it above 0 and at most 1", float32(a))
	}
	return newActivation(ReLU, float32(a), p), in, nil
}

// activation computes in place as well: its gradient needs the outputs only.
type activation struct {
	kind Activation
	leak float32
	pool *parallel.Pool

	y, x, dx, dy      []float32
	forwards, backers parallel.Task
}

// piece is the number of values that an activation processes at once.
const piece = 1 << 14

func newActivation(kind Activation, leak float32, p *parallel.Pool) *activation {
	a := &activation{kind: kind, leak: leak, pool: p}
	a.forwards, a.backers = a.forwardPart, a.backwardPart
	return a
}

func (a *activation) forward(y, x []float32, _ int) {
	a.y, a.x = y, x
	a.pool.Each((len(x)+piece-1)/piece, a.forwards)
	a.y, a.x = nil, nil
}

func (a *activation) forwardPart(part int, _ *parallel.Worker) {
	lo, hi := part*piece, min((part+1)*piece, len(a.x))
	y := a.y[lo:hi]
	switch a.kind {
	case ReLU:
		vector.LeakyReLU(y, a.x[lo:hi], a.leak)
	case Tanh:
		vector.Tanh(y, a.x[lo:hi])
	case SigmoidUnit:
		vector.Sigmoid(y, a.x[lo:hi])
	}
}

func (a *activation) backward(dx, dy, _, y []float32, _ int, _ bool) {
	if dx == nil {
		return
	}
	a.dx, a.dy, a.y = dx, dy, y
	a.pool.Each((len(y)+piece-1)/piece, a.backers)
	a.dx, a.dy, a.y = nil, nil, nil
}

func (a *activation) backwardPart(part int, _ *parallel.Worker) {
	lo, hi := part*piece, min((part+1)*piece, len(a.y))
	dx, dy, y := a.dx[lo:hi], a.dy[lo:hi], a.y[lo:hi]
	switch a.kind {
	case ReLU:
		vector.LeakyReLUGrad(dx, dy, y, a.leak)
	case Tanh:
		for i, v := range y {
			dx[i] = dy[i] * (1 - v*v)
		}
	case SigmoidUnit:
		for i, v := range y {
			dx[i] = dy[i] * (v * (1 - v))
		}
	}
}

func (a *activation) clone(p *parallel.Pool) layer { return newActivation(a.kind, a.leak, p) }
