//go:build amd64 && !noasm

package gemm

import (
	"sync"
	"unsafe"

	"github.com/conclave-dp/conclave/internal/nn/kernel"
)

// panel has the arguments of an assembly kernel; ../gen/gemm.go has the offsets. The kernel computes m rows of C =
// rectify(init + A B), and up to as many columns as its registers hold.
type panel struct {
	a, b, c, init                   *float32
	aRow, aCol, bRow, cRow, initRow int // bytes
	m, k                            int // at least 1
	mask                            uintptr
	slope                           float32
}

// The blocks of a large product: a block of B of blockK rows and a panel's width
// stays in the first cache while a block of A of blockM rows passes, which stays
// in the second.
const (
	blockK = 256
	blockM = 192
	blockN = 1024
	// gap prevents rows of a copied A from mapping to the same cache lines.
	gap = 16
)

// shortRow is the largest row length of A at which rows do not conflict in the cache and are used without a copy.
const shortRow = 64

// directB is the largest size of B, in numbers, that is used without a copy.
const directB = 6 << 10

// zeros is the start of sums that begin with zero.
var zeros [32]float32

// masks256 holds ones and then zeros: 16 words from 16-n on are the mask of n
// columns.
var masks256 = func() (m [32]uint32) {
	for i := range 16 {
		m[i] = ^uint32(0)
	}
	return m
}()

func multiply(c, a, b kernel.Matrix, e Epilogue) {
	switch {
	case kernel.Active() == kernel.Portable || a.Cols == 0:
		multiplyPortable(c, a, b, e)
	case !b.Transposed && (b.Rows*b.Cols <= directB || c.Rows <= 8):
		multiplyDirect(c, a, b, e)
	default:
		multiplyBlocked(c, a, b, e)
	}
}

func panelWidth() int {
	if kernel.Active() == kernel.AVX512 {
		return 32
	}
	return 16
}

// multiplyDirect computes panels from A and B without copies.
func multiplyDirect(c, a, b kernel.Matrix, e Epilogue) {
	aRow, aCol := a.Strides()
	p := panel{
		a: &a.Data[0], aRow: 4 * aRow, aCol: 4 * aCol, bRow: 4 * b.Stride, cRow: 4 * c.Stride,
		m: c.Rows, k: a.Cols, slope: e.slope(),
	}
	width := panelWidth()
	for j := 0; j < c.Cols; j += width {
		p.b, p.c = &b.Data[j], &c.Data[j]
		p.begin(e, j, true)
		p.run(min(width, c.Cols-j))
	}
}

// begin sets the start of the sums for the columns from j on: the values from the epilogue in the first block, and
// the content of C later.
func (p *panel) begin(e Epilogue, j int, first bool) {
	switch {
	case e.Add || !first:
		p.init, p.initRow = p.c, p.cRow
	case e.Bias != nil:
		p.init, p.initRow = &e.Bias[j], 0
	default:
		p.init, p.initRow = &zeros[0], 0
	}
}

// slope is the rectifier's, 1 for none.
func (e Epilogue) slope() float32 {
	if e.Leak == 0 {
		return 1
	}
	return e.Leak
}

// run computes the given number of columns, at most panelWidth.
func (p *panel) run(columns int) {
	if kernel.Active() == kernel.AVX512 {
		p.mask = 1<<columns - 1
		switch {
		case columns == 32:
			panel512x32(p)
		case columns > 16:
			panel512x32masked(p)
		default:
			panel512x16masked(p)
		}
		return
	}
	p.mask = uintptr(unsafe.Pointer(&masks256[16-columns])) // a variable with a fixed address
	switch {
	case columns == 16:
		panel256x16(p)
	case columns > 8:
		panel256x16masked(p)
	default:
		panel256x8masked(p)
	}
}

// blocks is the memory for copies of parts of A and B.
type blocks struct {
	a [(blockM + gap) * (blockK + gap)]float32
	b [blockK * blockN]float32
}

var blocksPool = sync.Pool{New: func() any { return new(blocks) }}

// multiplyBlocked copies blocks of B into panels, and blocks of A, and computes
// these.
func multiplyBlocked(c, a, b kernel.Matrix, e Epilogue) {
	memory := blocksPool.Get().(*blocks)
	defer blocksPool.Put(memory)
	width := panelWidth()
	for k := 0; k < a.Cols; k += blockK {
		depth := min(blockK, a.Cols-k)
		slope := float32(1)
		if k+depth == a.Cols {
			slope = e.slope()
		}
		for j := 0; j < c.Cols; j += blockN {
			n := min(blockN, c.Cols-j)
			memory.packB(b, k, depth, j, n, width)
			for i := 0; i < c.Rows; i += blockM {
				m := min(blockM, c.Rows-i)
				p := panel{bRow: 4 * width, cRow: 4 * c.Stride, m: m, k: depth, slope: slope}
				memory.copyA(&p, a, i, k)
				for jj := 0; jj < n; jj += width {
					p.b, p.c = &memory.b[jj*depth], &c.Data[i*c.Stride+j+jj]
					p.begin(e, j+jj, k == 0)
					p.run(min(width, n-jj))
				}
			}
		}
	}
}

// copyA copies m rows from i on and k columns of A, unless they can be used directly, and points p to them.
func (s *blocks) copyA(p *panel, a kernel.Matrix, i, k int) {
	if !a.Transposed && a.Stride <= shortRow {
		p.a, p.aRow, p.aCol = &a.Data[i*a.Stride+k], 4*a.Stride, 4
		return
	}
	if a.Transposed {
		stride := p.m + gap
		for q := range p.k {
			copy(s.a[q*stride:q*stride+p.m], a.Data[(k+q)*a.Stride+i:])
		}
		p.aRow, p.aCol = 4, 4*stride
	} else {
		stride := p.k + gap
		for q := range p.m {
			copy(s.a[q*stride:q*stride+p.k], a.Data[(i+q)*a.Stride+k:])
		}
		p.aRow, p.aCol = 4*stride, 4
	}
	p.a = &s.a[0]
}

// packB copies depth rows and n columns of B into panels of the given width,
// one after the other.
func (s *blocks) packB(b kernel.Matrix, k, depth, j, n, width int) {
	for jj := 0; jj < n; jj += width {
		columns := min(width, n-jj)
		to := s.b[jj*depth:]
		if b.Transposed {
			packTransposed(to, b.Data[(j+jj)*b.Stride+k:], columns, depth, width, b.Stride)
			continue
		}
		for r := range depth {
			copy(to[r*width:r*width+columns], b.Data[(k+r)*b.Stride+j+jj:])
		}
	}
}

// packTransposed writes columns of B, which lie stride apart, as depth rows. Squares
// of 8 may overlap at the ends.
func packTransposed(to, from []float32, columns, depth, width, stride int) {
	if columns < 8 || depth < 8 {
		for q := range columns {
			for r, x := range from[q*stride:][:depth] {
				to[r*width+q] = x
			}
		}
		return
	}
	for q := 0; q < columns; q = next8(q, columns) {
		transpose8(&to[q], &from[q*stride], 4*width, 4*stride, depth/8)
		if r := depth - 8; depth%8 > 0 {
			transpose8(&to[r*width+q], &from[q*stride+r], 4*width, 4*stride, 1)
		}
	}
}

// next8 is the start of the square after the one at q, n at the end.
func next8(q, n int) int {
	if q+8 == n {
		return n
	}
	return min(q+8, n-8)
}
