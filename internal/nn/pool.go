package nn

import (
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/conclave-dp/conclave/internal/nn/kernel"
	"github.com/conclave-dp/conclave/internal/nn/kernel/gemm"
)

// pool runs the parts of a layer's work on several processors, with scratch
// memory for each. What is a part must not depend on how many processors there
// are. Once warm it does not allocate, which is why tasks are made beforehand.
type pool struct {
	limit   int // most workers, 0 is GOMAXPROCS
	workers []worker

	matrix   matrixProduct
	products task

	task  task
	parts int64
	next  atomic.Int64
	wait  sync.WaitGroup
}

// task does one part of some work.
type task func(part int, w *worker)

type worker struct {
	index   int // 0, 1, ...
	run     func()
	scratch []float32
	wide    []float64
}

// floats returns n numbers of scratch memory of any content.
func (w *worker) floats(n int) []float32 {
	w.scratch = resize(w.scratch, n)
	return w.scratch
}

// zeros returns n wide numbers, all 0.
func (w *worker) zeros(n int) []float64 {
	if cap(w.wide) < n {
		w.wide = make([]float64, n)
	}
	w.wide = w.wide[:n]
	clear(w.wide)
	return w.wide
}

// matrixProduct is a product in work.
type matrixProduct struct {
	c, a, b  kernel.Matrix
	epilogue gemm.Epilogue
	parts    int
}

// product computes C = A B on as many processors as it is worth.
func (p *pool) product(c, a, b kernel.Matrix, e gemm.Epilogue) {
	parts := min(p.size(), gemm.Parts(c.Rows, c.Cols, a.Cols))
	if parts == 1 {
		gemm.Multiply(c, a, b, e)
		return
	}
	if p.products == nil {
		p.products = func(part int, _ *worker) {
			m := &p.matrix
			gemm.MultiplyPart(m.c, m.a, m.b, m.epilogue, part, m.parts)
		}
	}
	p.matrix = matrixProduct{c, a, b, e, parts}
	p.each(parts, p.products)
	p.matrix = matrixProduct{}
}

// size is how many processors there are.
func (p *pool) size() int {
	if p.limit > 0 {
		return p.limit
	}
	return runtime.GOMAXPROCS(0)
}

// each runs t for parts 0, 1, ..., parts-1 in any order and waits.
func (p *pool) each(parts int, t task) {
	n := max(1, min(p.size(), parts))
	for len(p.workers) < n {
		p.grow()
	}
	p.task, p.parts = t, int64(parts)
	p.next.Store(0)
	p.wait.Add(n - 1)
	defer p.wait.Wait() // also when a part panics here, or the others would still run
	for i := range n - 1 {
		go p.workers[i+1].run()
	}
	p.work(0)
}

func (p *pool) grow() {
	i := len(p.workers)
	p.workers = append(p.workers, worker{index: i, run: func() {
		p.work(i)
		p.wait.Done()
	}})
}

func (p *pool) work(i int) {
	for {
		part := p.next.Add(1) - 1
		if part >= p.parts {
			return
		}
		p.task(int(part), &p.workers[i])
	}
}

// lanes says into how many runs of records a batch is split where each run has
// its own sum, which are added up in order.
func lanes(n int) int { return min(8, (n+15)/16) }

// span returns the records [lo, hi) of one of several equal parts of n.
func span(part, parts, n int) (lo, hi int) { return part * n / parts, (part + 1) * n / parts }
