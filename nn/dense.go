package nn

import (
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"
)

// Param is one tensor of a model with its gradient. Value and Grad share the
// shape; Grad is added to by Backward and cleared by an optimizer step.
type Param struct {
	Name  string
	Shape []int
	Value []float32
	Grad  []float32
}

// dense is a fully connected layer, y = x W^T + b, W of shape [out, in].
type dense struct {
	in, out int
	w, b    []float32
	dw, db  []float32
}

func newDense(rng *rand.Rand, in, out int) *dense {
	d := &dense{
		in: in, out: out,
		w: make([]float32, in*out), b: make([]float32, out),
		dw: make([]float32, in*out), db: make([]float32, out),
	}
	// Glorot and Bengio 2010: uniform with variance 2/(in+out).
	bound := math.Sqrt(6 / float64(in+out))
	for i := range d.w {
		d.w[i] = float32((2*rng.Float64() - 1) * bound)
	}
	return d
}

func (d *dense) forward(y, x []float32, n int) {
	for i := range n {
		copy(y[i*d.out:(i+1)*d.out], d.b)
	}
	blas32.Gemm(blas.NoTrans, blas.Trans, 1, general(x, n, d.in), general(d.w, d.out, d.in), 1, general(y, n, d.out))
}

// backward adds the parameters' gradients for the output gradient dy and, if
// dx is not nil, writes the input gradient to it.
func (d *dense) backward(dx, dy, x []float32, n int, params bool) {
	if params {
		blas32.Gemm(blas.Trans, blas.NoTrans, 1, general(dy, n, d.out), general(x, n, d.in), 1, general(d.dw, d.out, d.in))
		for i := range n {
			for j, g := range dy[i*d.out : (i+1)*d.out] {
				d.db[j] += g
			}
		}
	}
	if dx != nil {
		blas32.Gemm(blas.NoTrans, blas.NoTrans, 1, general(dy, n, d.out), general(d.w, d.out, d.in), 0, general(dx, n, d.in))
	}
}

func general(data []float32, rows, cols int) blas32.General {
	return blas32.General{Rows: rows, Cols: cols, Stride: cols, Data: data}
}

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
			m.layers = append(m.layers, newDense(rng, widths[i-1], w))
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
		if i < len(m.layers)-1 {
			for j, v := range m.acts[i+1] {
				if v < 0 {
					m.acts[i+1][j] = leak * v
				}
			}
		}
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
		l.backward(dx, dy, m.acts[i], m.n, params)
		if i > 0 {
			for j, v := range m.acts[i] {
				if v < 0 {
					dx[j] *= leak
				}
			}
		}
		dy = dx
	}
	return dy
}

// Params lists the network's tensors, first layer first.
func (m *MLP) Params() []Param {
	var ps []Param
	for i, l := range m.layers {
		ps = append(ps,
			Param{fmt.Sprintf("layer%d.weight", i), []int{l.out, l.in}, l.w, l.dw},
			Param{fmt.Sprintf("layer%d.bias", i), []int{l.out}, l.b, l.db})
	}
	return ps
}

// Clone returns a copy with the same weights and its own memory.
func (m *MLP) Clone() *MLP {
	c := &MLP{acts: make([][]float32, len(m.acts)), grads: make([][]float32, len(m.grads))}
	for _, l := range m.layers {
		c.layers = append(c.layers, &dense{
			in: l.in, out: l.out,
			w: append([]float32(nil), l.w...), b: append([]float32(nil), l.b...),
			dw: make([]float32, len(l.dw)), db: make([]float32, len(l.db)),
		})
	}
	return c
}

// Scale multiplies the weights of the output layer. A generator whose
// pre-activations are spread widely starts near uniform outputs instead of
// near the middle of every range.
func (m *MLP) Scale(factor float32) {
	last := m.layers[len(m.layers)-1]
	for i := range last.w {
		last.w[i] *= factor
	}
}

func resize(s []float32, n int) []float32 {
	if cap(s) < n {
		return make([]float32, n)
	}
	return s[:n]
}
