package nn

import (
	"github.com/conclave-dp/conclave/internal/nn/kernel"
	"github.com/conclave-dp/conclave/internal/nn/kernel/gemm"
	"github.com/conclave-dp/conclave/internal/nn/kernel/vector"
	"github.com/conclave-dp/conclave/internal/nn/parallel"
)

// backward takes the gradient dy from before the rectifier. A batch is split into lanes, each with its own sum of
// weight gradients. The number of lanes depends on the batch only, so that the sum does not depend on the number
// of processors.
func (c *convolution) backward(dx, dy, x, _ []float32, n int, params bool) {
	if dx == nil && !params {
		return
	}
	c.batch = convBatch{x: x, dy: dy, dx: dx, n: n, params: params}
	k := c.backParts()
	if params {
		for len(c.laneW) < k-1 {
			c.laneW = append(c.laneW, make([]float32, len(c.dw)))
			c.laneB = append(c.laneB, make([]float32, len(c.db)))
		}
	}
	c.pool.Each(k, c.tasks.backs)
	if params && k > 1 {
		c.pool.Each((len(c.dw)+piece-1)/piece, c.tasks.reduces)
		for _, b := range c.laneB[:k-1] {
			vector.AddScaled(c.db, b, 1)
		}
	}
	c.batch = convBatch{}
}

func (c *convolution) backParts() int {
	if c.batch.params {
		return parallel.Lanes(c.batch.n)
	}
	return c.parts(c.batch.n)
}

func (c *convolution) backPart(part int, w *parallel.Worker) {
	b := &c.batch
	var dw, db []float32
	if b.params {
		dw, db = c.laneGrads(part)
	}
	lo, end := parallel.Span(part, c.backParts(), b.n)
	for lo < end {
		hi := min(end, lo+c.chunk())
		c.backChunk(w, dw, db, lo, hi)
		lo = hi
	}
}

// backChunk adds the gradients of records [lo, hi) to dw and db, unless they are nil, and writes those with
// respect to the input.
func (c *convolution) backChunk(w *parallel.Worker, dw, db []float32, lo, hi int) {
	b := &c.batch
	images, sides, dys := b.x, b.dy, c.sides
	if c.transposed {
		images, sides, dys = b.dy, b.x, c.images
	}
	var cols kernel.Matrix
	if b.params || c.transposed {
		cols = c.gatherAll(w, images, lo, hi)
	}
	if b.params {
		side := kernel.Of(c.sides(sides, lo, hi), cols.Rows, c.side)
		gemm.Multiply(kernel.Of(dw, c.side, c.size()), side.T(), cols, gemm.Epilogue{Add: true})
		addRows(db, dys(b.dy, lo, hi))
	}
	switch {
	case b.dx == nil:
	case c.transposed:
		gemm.Multiply(kernel.Of(c.sides(b.dx, lo, hi), cols.Rows, c.side), cols, c.weights().T(), gemm.Epilogue{})
	default:
		clear(c.images(b.dx, lo, hi))
		c.spread(w, b.dx, b.dy, lo, hi)
	}
}

// laneGrads returns where a lane adds its gradients. All lanes but the first start from zero.
func (c *convolution) laneGrads(lane int) (dw, db []float32) {
	if lane == 0 {
		return c.dw, c.db
	}
	dw, db = c.laneW[lane-1], c.laneB[lane-1]
	clear(dw)
	clear(db)
	return dw, db
}

func (c *convolution) reducePart(part int, _ *parallel.Worker) {
	lo, hi := part*piece, min((part+1)*piece, len(c.dw))
	for _, w := range c.laneW[:parallel.Lanes(c.batch.n)-1] {
		vector.AddScaled(c.dw[lo:hi], w[lo:hi], 1)
	}
}
