// Package parallel divides the work of layers among processors.
package parallel

import (
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/conclave-dp/conclave/internal/nn/kernel"
	"github.com/conclave-dp/conclave/internal/nn/kernel/gemm"
	"github.com/conclave-dp/conclave/internal/nn/tensor"
)

// Pool runs the parts of a layer's work on several processors, with scratch memory for each. The division into
// parts must not depend on the number of processors. Once warm it does not allocate, which is why tasks are
// created in advance.
type Pool struct {
	Limit   int // most workers, 0 is GOMAXPROCS
	workers []Worker

	matrix   matrixProduct
	products Task

	task  Task
	parts int64
	next  atomic.Int64
	wait  sync.WaitGroup
}

// Task does one part of some work.
type Task func(part int, w *Worker)

// Worker is a processor of a pool, with its scratch memory.
type Worker struct {
	Index   int // 0, 1, ...
	run     func()
	scratch []float32
}

// Floats returns n numbers of scratch memory of any content.
func (w *Worker) Floats(n int) []float32 {
	w.scratch = tensor.Resize(w.scratch, n)
	return w.scratch
}

type matrixProduct struct {
	c, a, b  kernel.Matrix
	epilogue gemm.Epilogue
	parts    int
}

// Product computes C = A B on as many processors as are worth it.
func (p *Pool) Product(c, a, b kernel.Matrix, e gemm.Epilogue) {
	parts := min(p.Size(), gemm.Parts(c.Rows, c.Cols, a.Cols))
	if parts == 1 {
		gemm.Multiply(c, a, b, e)
		return
	}
	if p.products == nil {
		p.products = func(part int, _ *Worker) {
			m := &p.matrix
			gemm.MultiplyPart(m.c, m.a, m.b, m.epilogue, part, m.parts)
		}
	}
	p.matrix = matrixProduct{c, a, b, e, parts}
	p.Each(parts, p.products)
	p.matrix = matrixProduct{}
}

// Size is the number of processors.
func (p *Pool) Size() int {
	if p.Limit > 0 {
		return p.Limit
	}
	return runtime.GOMAXPROCS(0)
}

// Each runs t for parts 0, 1, ..., parts-1 in any order and waits.
func (p *Pool) Each(parts int, t Task) {
	n := max(1, min(p.Size(), parts))
	for len(p.workers) < n {
		p.grow()
	}
	p.task, p.parts = t, int64(parts)
	p.next.Store(0)
	p.wait.Add(n - 1)
	defer p.wait.Wait() // also if a part panics here; otherwise the others would continue to run
	for i := range n - 1 {
		go p.workers[i+1].run()
	}
	p.work(0)
}

func (p *Pool) grow() {
	i := len(p.workers)
	p.workers = append(p.workers, Worker{Index: i, run: func() {
		p.work(i)
		p.wait.Done()
	}})
}

func (p *Pool) work(i int) {
	for {
		part := p.next.Add(1) - 1
		if part >= p.parts {
			return
		}
		p.task(int(part), &p.workers[i])
	}
}

// Lanes is the number of ranges of records into which a batch is split if each range has its own sum; the sums are
// added in order.
func Lanes(n int) int { return min(8, (n+15)/16) }

// Span returns the records [lo, hi) of one of several equal parts of n.
func Span(part, parts, n int) (lo, hi int) { return part * n / parts, (part + 1) * n / parts }
