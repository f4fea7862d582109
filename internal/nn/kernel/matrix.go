package kernel

import "fmt"

// Matrix is a view of numbers in row-major order: element (i, j) is Data[i*Stride+j], or Data[j*Stride+i] if it is
// transposed.
type Matrix struct {
	Data       []float32
	Rows, Cols int // as seen, after transposition
	Stride     int
	Transposed bool
}

// Of returns data as a matrix without gaps.
func Of(data []float32, rows, cols int) Matrix {
	return Matrix{Data: data, Rows: rows, Cols: cols, Stride: cols}
}

// T returns the transposed view.
func (m Matrix) T() Matrix {
	m.Rows, m.Cols, m.Transposed = m.Cols, m.Rows, !m.Transposed
	return m
}

// RowRange returns the view of rows [lo, hi).
func (m Matrix) RowRange(lo, hi int) Matrix {
	row, _ := m.Strides()
	m.Rows = hi - lo
	m.Data = m.Data[min(len(m.Data), lo*row):]
	return m
}

// Check panics unless all elements lie within Data.
func (m Matrix) Check(name string) {
	rows, cols := m.Rows, m.Cols
	if m.Transposed {
		rows, cols = cols, rows
	}
	if rows < 0 || cols < 0 || m.Stride < cols {
		panic(fmt.Sprintf("kernel: matrix %s of shape [%d, %d] with stride %d", name, m.Rows, m.Cols, m.Stride))
	}
	if rows > 0 && cols > 0 && (len(m.Data)-cols)/m.Stride < rows-1 || rows > 0 && len(m.Data) < cols {
		panic(fmt.Sprintf("kernel: matrix %s of shape [%d, %d] with stride %d in %d numbers",
			name, m.Rows, m.Cols, m.Stride, len(m.Data)))
	}
}

// Strides returns the distances between neighbours in a column and in a row.
func (m Matrix) Strides() (row, col int) {
	if m.Transposed {
		return 1, m.Stride
	}
	return m.Stride, 1
}
