package nn

import (
	"fmt"
	"math/rand/v2"

	"github.com/conclave-dp/conclave/nn/kernel"
)

// MLP is a dense network with leaky rectifiers between its layers and a linear
// output. It is not safe for concurrent use: it keeps the activations of the
// last Forward for Backward.
type MLP struct {
	layers []*dense
	// acts[i] is the input of layer i, acts[len(layers)] the output.
	acts  [][]float32
	grads [][]float32
	n     int
}

// leak is the slope of the rectifier below zero.
const leak = 0.2

// NewMLP returns a network with the given layer widths, input first, at least
// two of them.
func NewMLP(rng *rand.Rand, widths ...int) (*MLP, error) {
	if len(widths) < 2 {
		return nil, fmt.Errorf("nn: a network needs an input and an output width, got %d widths", len(widths))
	}
	m := &MLP{acts: make([][]float32, len(widths)), grads: make([][]float32, len(widths))}
	for i, w := range widths {
		if w < 1 {
			return nil, fmt.Errorf("nn: layer %d has width %d, want at least 1", i, w)
		}
		if i > 0 {
			l := newDense(rng, widths[i-1], w, GlorotUniform)
			if i < len(widths)-1 {
				l.leak = leak
			}
			m.layers = append(m.layers, l)
		}
	}
	return m, nil
}

// In returns the input width.
func (m *MLP) In() int { return m.layers[0].in }

// Forward returns the outputs for n records, shape [n, outputs]. The slice is
// valid until the next Forward.
func (m *MLP) Forward(x []float32, n int) []float32 {
	if len(x) != n*m.In() {
		panic(fmt.Sprintf("nn: forward got %d values for %d records of width %d", len(x), n, m.In()))
	}
	m.n = n
	m.acts[0] = x
	for i, l := range m.layers {
		m.acts[i+1] = resize(m.acts[i+1], n*l.out)
		l.forward(m.acts[i+1], m.acts[i], n)
	}
	return m.acts[len(m.layers)]
}

// Backward takes the gradient of the loss with respect to the output of the
// last Forward, adds to the parameters' gradients if params is set, and returns
// the gradient with respect to the input if input is set (valid until the next
// Backward).
func (m *MLP) Backward(dout []float32, params, input bool) []float32 {
	dy := dout
	for i := len(m.layers) - 1; i >= 0; i-- {
		l := m.layers[i]
		var dx []float32
		if i > 0 || input {
			m.grads[i] = resize(m.grads[i], m.n*l.in)
			dx = m.grads[i]
		}
		l.backward(dx, dy, m.acts[i], nil, m.n, params)
		if i > 0 {
			kernel.LeakyReLUGrad(dx, dx, m.acts[i], leak)
		}
		dy = dx
	}
	return dy
}

// Params lists the network's tensors, first layer first.
func (m *MLP) Params() []Param {
	var ps []Param
	for i, l := range m.layers {
		ps = append(ps, named(i, l.params())...)
	}
	return ps
}

// Clone returns a copy with the same weights and its own memory.
func (m *MLP) Clone() *MLP {
	c := &MLP{acts: make([][]float32, len(m.acts)), grads: make([][]float32, len(m.grads))}
	for _, l := range m.layers {
		c.layers = append(c.layers, l.copy())
	}
	return c
}

// Scale multiplies the weights of the output layer. A generator whose
// pre-activations are spread widely starts near uniform outputs instead of
// near the middle of every range.
func (m *MLP) Scale(factor float32) {
	last := m.layers[len(m.layers)-1]
	kernel.Scale(last.w, factor)
}
