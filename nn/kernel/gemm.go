package kernel

import "fmt"

// Epilogue says what else [Gemm] does with a product.
type Epilogue struct {
	// Add keeps what C holds and adds the product to it.
	Add bool
	// Bias, of C's columns, is added to each row. It does not go with Add.
	Bias []float32
	// Leak, above 0 and at most 1, is the slope of a leaky rectifier through
	// which every element goes in the end; 0 means none.
	Leak float32
}

// Gemm computes C = A B with an epilogue. C must not be transposed and must not
// overlap A or B. The shapes must fit: A [m, k], B [k, n], C [m, n]. A k of 0 is a
// product of zeros.
func Gemm(c, a, b Matrix, e Epilogue) {
	checkGemm(c, a, b, e)
	if c.Rows == 0 || c.Cols == 0 {
		return
	}
	gemm(c, a, b, e)
}

func checkGemm(c, a, b Matrix, e Epilogue) {
	a.check("A")
	b.check("B")
	c.check("C")
	switch {
	case c.Transposed:
		panic("kernel: the result of a product must not be transposed")
	case a.Rows != c.Rows || b.Cols != c.Cols || a.Cols != b.Rows:
		panic(fmt.Sprintf("kernel: product of [%d, %d] and [%d, %d] into [%d, %d]", a.Rows, a.Cols, b.Rows, b.Cols, c.Rows, c.Cols))
	case e.Bias != nil && (len(e.Bias) != c.Cols || e.Add):
		panic(fmt.Sprintf("kernel: bias of %d numbers for %d columns, or in addition to what is there", len(e.Bias), c.Cols))
	case !(e.Leak >= 0 && e.Leak <= 1):
		panic(fmt.Sprintf("kernel: leak %v is not between 0 and 1", e.Leak))
	}
}
