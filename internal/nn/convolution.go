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

// convolution is [Conv2D] or [ConvTranspose2D]. Its weights, of shape [side, kernel, kernel, channels], map
// between the patches of an image and vectors of side numbers at their positions. One maps patches to positions,
// the other maps back; each is the other's gradient with respect to the input.
type convolution struct {
	patches
	side       int
	transposed bool
	leak       float32
	init       Init
	w, b       []float32
	dw, db     []float32
	laneW      [][]float32 // gradients of lanes after the first
	laneB      [][]float32

	pool  *parallel.Pool
	batch convBatch
	tasks convTasks
}

// convTasks are the parts of a convolution's work. They are made once, so that a call allocates
// nothing.
type convTasks struct{ forwards, backs, reduces parallel.Task }

type convBatch struct {
	y, x, dy, dx []float32
	n            int
	params       bool
}

func newConvolution(rng *rand.Rand, grid patches, side int, transposed bool, init Init,
	p *parallel.Pool) (*convolution, error) {
	if err := grid.check(); err != nil {
		return nil, err
	}
	size, err := tensor.Size([]int{side, grid.kernel, grid.kernel, grid.of.Channels})
	if err != nil {
		return nil, fmt.Errorf("weights: %w", err)
	}
	c := &convolution{patches: grid, side: side, transposed: transposed, init: init, w: make([]float32, size),
		b: make([]float32, side)}
	if transposed {
		c.b = make([]float32, grid.of.Channels)
	}
	c.draw(rng)
	c.start(p)
	return c, nil
}

func (c *convolution) draw(rng *rand.Rand) {
	// A side vector is computed from, or spread over, the numbers of a patch. A channel of the image is computed
	// from, or spread over, kernel x kernel side vectors.
	in, out := c.size(), c.kernel*c.kernel*c.side
	if c.transposed {
		in, out = out, in
	}
	c.init.draw(rng, c.w, in, out)
	clear(c.b)
}

// start gives the layer its own memory.
func (c *convolution) start(p *parallel.Pool) {
	c.dw, c.db = make([]float32, len(c.w)), make([]float32, len(c.b))
	c.laneW, c.laneB, c.batch = nil, nil, convBatch{}
	c.pool = p
	c.tasks = convTasks{c.forwardPart, c.backPart, c.reducePart}
}

func (c *convolution) clone(p *parallel.Pool) layer {
	d := *c
	d.w, d.b = append([]float32(nil), c.w...), append([]float32(nil), c.b...)
	d.start(p)
	return &d
}

func (c *convolution) rectify(leak float32) { c.leak = leak }

func (c *convolution) slots() []slot {
	return []slot{
		{"weight", []int{c.side, c.kernel, c.kernel, c.of.Channels}, &c.w, &c.dw},
		{"bias", []int{len(c.b)}, &c.b, &c.db},
	}
}

// chunkFloats bounds the patches that a worker holds at a time: few enough for the cache, and enough that a
// product repays packing the weights.
const chunkFloats = 1 << 18

// chunk is the number of records whose patches a worker holds at a time.
func (c *convolution) chunk() int { return max(1, chunkFloats/(c.positions()*c.size())) }

// parts is the number of ranges into which a batch of independent records is split.
func (c *convolution) parts(n int) int { return min(n, max(8, (n+c.chunk()-1)/c.chunk())) }

func (c *convolution) weights() kernel.Matrix { return kernel.Of(c.w, c.side, c.size()) }

// images and sides return records [lo, hi) of a batch of images, and of vectors
// at all positions.
func (c *convolution) images(x []float32, lo, hi int) []float32 {
	size := c.of.Size()
	return x[lo*size : hi*size]
}

func (c *convolution) sides(x []float32, lo, hi int) []float32 {
	size := c.positions() * c.side
	return x[lo*size : hi*size]
}

// gatherAll writes the patches of records [lo, hi) to w's memory, as [records *
// positions, size].
func (c *convolution) gatherAll(w *parallel.Worker, images []float32, lo, hi int) kernel.Matrix {
	each := c.positions() * c.size()
	cols := w.Floats((hi - lo) * each)
	for i := lo; i < hi; i++ {
		c.gather(cols[(i-lo)*each:(i-lo+1)*each], c.images(images, i, i+1))
	}
	return kernel.Of(cols, (hi-lo)*c.positions(), c.size())
}

// spread adds the patches of the side vectors to records [lo, hi) of images.
func (c *convolution) spread(w *parallel.Worker, images, sides []float32, lo, hi int) {
	each, rows := c.positions()*c.size(), (hi-lo)*c.positions()
	cols := w.Floats((hi - lo) * each)
	gemm.Multiply(kernel.Of(cols, rows, c.size()), kernel.Of(c.sides(sides, lo, hi), rows, c.side), c.weights(),
		gemm.Epilogue{})
	for i := lo; i < hi; i++ {
		c.scatter(c.images(images, i, i+1), cols[(i-lo)*each:(i-lo+1)*each])
	}
}

func (c *convolution) forward(y, x []float32, n int) {
	c.batch = convBatch{y: y, x: x, n: n}
	c.pool.Each(c.parts(n), c.tasks.forwards)
	c.batch = convBatch{}
}

func (c *convolution) forwardPart(part int, w *parallel.Worker) {
	b := &c.batch
	lo, end := parallel.Span(part, c.parts(b.n), b.n)
	for lo < end {
		hi := min(end, lo+c.chunk())
		if c.transposed {
			y := c.images(b.y, lo, hi)
			for at := 0; at < len(y); at += len(c.b) {
				copy(y[at:], c.b)
			}
			c.spread(w, b.y, b.x, lo, hi)
			if c.leak > 0 {
				vector.LeakyReLU(y, y, c.leak)
			}
		} else {
			cols := c.gatherAll(w, b.x, lo, hi)
			gemm.Multiply(kernel.Of(c.sides(b.y, lo, hi), cols.Rows, c.side), cols, c.weights().T(),
				gemm.Epilogue{Bias: c.b, Leak: c.leak})
		}
		lo = hi
	}
}
