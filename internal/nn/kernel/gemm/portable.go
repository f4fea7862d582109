package gemm

import "github.com/conclave-dp/conclave/internal/nn/kernel"

// multiplyPortable is Gemm in plain Go, for a C that is not empty. Rows of C are
// built up from rows of B, four at a time where B is not transposed.
func multiplyPortable(c, a, b kernel.Matrix, e Epilogue) {
	aRow, aCol := a.Strides()
	for i := range c.Rows {
		row := c.Data[i*c.Stride : i*c.Stride+c.Cols]
		switch {
		case e.Bias != nil:
			copy(row, e.Bias)
		case !e.Add:
			clear(row)
		}
		switch {
		case a.Cols == 0:
		case b.Transposed:
			addDots(row, a.Data[i*aRow:], aCol, b, a.Cols)
		default:
			addRows(row, a.Data[i*aRow:], aCol, b, a.Cols)
		}
		if e.Leak > 0 {
			for j, v := range row {
				if v < 0 {
					row[j] = e.Leak * v
				}
			}
		}
	}
}

// addRows adds to row the k rows of b, times every step-th number of a.
func addRows(row, a []float32, step int, b kernel.Matrix, k int) {
	p := 0
	for ; p+4 <= k; p += 4 {
		a0, a1, a2, a3 := a[p*step], a[(p+1)*step], a[(p+2)*step], a[(p+3)*step]
		b0 := b.Data[p*b.Stride:][:len(row)]
		b1 := b.Data[(p+1)*b.Stride:][:len(row)]
		b2 := b.Data[(p+2)*b.Stride:][:len(row)]
		b3 := b.Data[(p+3)*b.Stride:][:len(row)]
		for j := range row {
			row[j] += a0*b0[j] + a1*b1[j] + a2*b2[j] + a3*b3[j]
		}
	}
	for ; p < k; p++ {
		x := a[p*step]
		for j, v := range b.Data[p*b.Stride:][:len(row)] {
			row[j] += x * v
		}
	}
}

// addDots is addRows for a transposed b: column j of it is contiguous.
func addDots(row, a []float32, step int, b kernel.Matrix, k int) {
	for j := range row {
		var s0, s1, s2, s3 float32
		column := b.Data[j*b.Stride:][:k]
		p := 0
		for ; p+4 <= k; p += 4 {
			s0 += a[p*step] * column[p]
			s1 += a[(p+1)*step] * column[p+1]
			s2 += a[(p+2)*step] * column[p+2]
			s3 += a[(p+3)*step] * column[p+3]
		}
		for ; p < k; p++ {
			s0 += a[p*step] * column[p]
		}
		row[j] += (s0 + s1) + (s2 + s3)
	}
}
