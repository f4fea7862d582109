// Package gemm multiplies matrices of float32 numbers. Start with [Multiply] and
// [kernel.Of].
package gemm

import (
	"fmt"

	"github.com/conclave-dp/conclave/internal/nn/kernel"
)

// Epilogue says what else [Multiply] does with a product.
type Epilogue struct {
	// Add keeps what C holds and adds the product to it.
	Add bool
	// Bias, of C's columns, is added to each row. It does not go with Add.
	Bias []float32
	// Leak, above 0 and at most 1, is the slope of a leaky rectifier through
	// which every element goes in the end; 0 means none.
	Leak float32
}

// Multiply computes C = A B with an epilogue. C must not be transposed and must not
// overlap A or B. The shapes must fit: A [m, k], B [k, n], C [m, n]. A k of 0 is a
// product of zeros.
//
// Each element's products are added in order, so every bit of a row of C depends only on its row of A and on B,
// not on the number or content of other rows.
func Multiply(c, a, b kernel.Matrix, e Epilogue) {
	check(c, a, b, e)
	if c.Rows == 0 || c.Cols == 0 {
		return
	}
	multiply(c, a, b, e)
}

// Parts returns the largest useful number of parts of a product of this shape for [MultiplyPart]: 1 if it takes
// less time than waking a processor.
func Parts(m, n, k int) int {
	const worth = 1 << 20 // multiplications, some 15 microseconds
	return max(1, min(int(float64(m)*float64(n)*float64(k)/worth), max(m/partRows, n/partCols)))
}

// Parts of C are cut at multiples of these, which every tile divides.
const (
	partRows = 24
	partCols = 32
)

// MultiplyPart computes one of several parts of [Multiply], so that processors can share it: part 0, 1, ...,
// parts-1, each for different elements of C. The result does not depend on the number of parts.
func MultiplyPart(c, a, b kernel.Matrix, e Epilogue, part, parts int) {
	check(c, a, b, e)
	if part < 0 || part >= parts {
		panic(fmt.Sprintf("gemm: part %d of %d", part, parts))
	}
	if c.Rows == 0 || c.Cols == 0 {
		return
	}
	// Each part copies all of the matrix that is not cut, so cut the other.
	if c.Rows >= c.Cols {
		lo, hi := cut(c.Rows, partRows, part, parts)
		c, a = c.RowRange(lo, hi), a.RowRange(lo, hi)
	} else {
		lo, hi := cut(c.Cols, partCols, part, parts)
		c, b = c.T().RowRange(lo, hi).T(), b.T().RowRange(lo, hi).T()
		if e.Bias != nil {
			e.Bias = e.Bias[lo:hi]
		}
	}
	if c.Rows > 0 && c.Cols > 0 {
		multiply(c, a, b, e)
	}
}

// cut returns the bounds of one of several parts of n, multiples of unit but for
// the last.
func cut(n, unit, part, parts int) (lo, hi int) {
	units := (n + unit - 1) / unit
	return min(n, part*units/parts*unit), min(n, (part+1)*units/parts*unit)
}

func check(c, a, b kernel.Matrix, e Epilogue) {
	a.Check("A")
	b.Check("B")
	c.Check("C")
	switch {
	case c.Transposed:
		panic("gemm: the result of a product must not be transposed")
	case a.Rows != c.Rows || b.Cols != c.Cols || a.Cols != b.Rows:
		panic(fmt.Sprintf("gemm: product of [%d, %d] and [%d, %d] into [%d, %d]",
			a.Rows, a.Cols, b.Rows, b.Cols, c.Rows, c.Cols))
	case e.Bias != nil && (len(e.Bias) != c.Cols || e.Add):
		panic(fmt.Sprintf("gemm: bias of %d numbers for %d columns, or in addition to what is there",
			len(e.Bias), c.Cols))
	case !(e.Leak >= 0 && e.Leak <= 1):
		panic(fmt.Sprintf("gemm: leak %v is not between 0 and 1", e.Leak))
	}
}
