package nn

import (
	"fmt"
	"math/rand/v2"

	"github.com/conclave-dp/conclave/internal/nn/kernel"
	"github.com/conclave-dp/conclave/internal/nn/kernel/gemm"
	"github.com/conclave-dp/conclave/internal/nn/kernel/vector"
	"github.com/conclave-dp/conclave/internal/nn/parallel"
	"github.com/conclave-dp/conclave/internal/nn/tensor"
)

// Dense is a fully connected layer, y = x W + b, with W of shape [in, Out]. It flattens its input and returns a
// vector.
type Dense struct {
	Out  int
	Init Init // of W; nil is GlorotUniform
}

func (s Dense) build(rng *rand.Rand, in Shape, p *parallel.Pool) (layer, Shape, error) {
	if s.Out < 1 {
		return nil, Shape{}, fmt.Errorf("dense layer of %d outputs, want at least 1", s.Out)
	}
	size, err := tensor.Size([]int{in.Size(), s.Out})
	if err != nil {
		return nil, Shape{}, fmt.Errorf("dense layer of %d inputs and %d outputs is too large", in.Size(), s.Out)
	}
	d := &dense{in: in.Size(), out: s.Out, init: s.Init, w: make([]float32, size), b: make([]float32, s.Out)}
	d.draw(rng)
	d.start(p)
	return d, Vector(s.Out), nil
}

// dense is a fully connected layer, y = x W + b, W of shape [in, out]; with a leak above 0 a leaky rectifier
// follows. The forward product uses W without a transpose, which matters for small networks; only the gradient
// with respect to the input needs one.
type dense struct {
	in, out int
	leak    float32
	init    Init
	w, b    []float32
	dw, db  []float32
	// unit is set for a layer with one unit after another layer's rectifier: it is that other layer.
	unit *dense
	// biased says that db is up to date, because the unit after it has computed it.
	biased bool
	pool   *parallel.Pool
}

// start gives the layer its own memory.
func (d *dense) start(p *parallel.Pool) {
	d.dw, d.db, d.pool = make([]float32, len(d.w)), make([]float32, len(d.b)), p
}

func (d *dense) rectify(leak float32) { d.leak = leak }

func (d *dense) forward(y, x []float32, n int) {
	if d.out == 1 {
		vector.RowDots(y, x, d.w, d.b[0])
		if d.leak > 0 {
			vector.LeakyReLU(y, y, d.leak)
		}
		return
	}
	d.pool.Product(kernel.Of(y, n, d.out), kernel.Of(x, n, d.in), d.weights(), gemm.Epilogue{Bias: d.b, Leak: d.leak})
}

// backward takes the gradient dy from before the rectifier. A unit after another layer also goes back through that
// layer's rectifier.
func (d *dense) backward(dx, dy, x, _ []float32, n int, params bool) {
	g := kernel.Of(dy, n, d.out)
	through := params && dx != nil && d.unit != nil
	switch {
	case through:
		vector.UnitGrad(dx, x, dy, d.w, d.dw, d.unit.db, d.unit.leak)
		d.unit.biased = true
	case params && d.out == 1:
		vector.AddWeightedRows(d.dw, x, dy)
	case params:
		d.pool.Product(kernel.Of(d.dw, d.in, d.out), kernel.Of(x, n, d.in).T(), g, gemm.Epilogue{Add: true})
	}
	if params && !d.biased {
		addRows(d.db, dy)
	}
	d.biased = false
	if dx != nil && !through {
		d.pool.Product(kernel.Of(dx, n, d.in), g, d.weights().T(), gemm.Epilogue{})
		if d.unit != nil {
			vector.LeakyReLUGrad(dx, dx, x, d.unit.leak)
		}
	}
}

func (d *dense) weights() kernel.Matrix { return kernel.Of(d.w, d.in, d.out) }

func (d *dense) draw(rng *rand.Rand) {
	d.init.draw(rng, d.w, d.in, d.out)
	clear(d.b)
}

func (d *dense) slots() []slot {
	return []slot{
		{"weight", []int{d.in, d.out}, &d.w, &d.dw},
		{"bias", []int{d.out}, &d.b, &d.db},
	}
}

func (d *dense) clone(p *parallel.Pool) layer {
	c := *d
	c.w, c.b = append([]float32(nil), d.w...), append([]float32(nil), d.b...)
	c.start(p)
	return &c
}

func addRows(sums, rows []float32) { vector.AddRows(sums, rows, len(rows)/len(sums), len(sums)) }
