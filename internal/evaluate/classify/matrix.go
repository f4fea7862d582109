package classify

import (
	"fmt"
	"math"
)

// Matrix is a dense table of features, row after row: cell (i, j) is
// Data[i*Cols+j]. Features are finite and at most 1e100 in size.
type Matrix struct {
	Rows, Cols int
	Data       []float64
}

// largestFeature is small enough for squares to be finite.
const largestFeature = 1e100

// Row returns row i. It shares memory with the matrix.
func (m Matrix) Row(i int) []float64 { return m.Data[i*m.Cols : (i+1)*m.Cols] }

// check refuses a matrix whose shape is inconsistent, or with a value outside the allowed range.
func (m Matrix) check() error {
	if m.Rows <= 0 || m.Cols <= 0 {
		return fmt.Errorf("matrix of %d rows and %d columns: at least one of each is needed", m.Rows, m.Cols)
	}
	if len(m.Data)/m.Cols != m.Rows || len(m.Data)%m.Cols != 0 {
		return fmt.Errorf("matrix of %d rows and %d columns holds %d cells", m.Rows, m.Cols, len(m.Data))
	}
	for i, v := range m.Data {
		if math.Abs(v) <= largestFeature {
			continue
		}
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("feature %d of row %d is not a finite number", i%m.Cols+1, i/m.Cols+1)
		}
		return fmt.Errorf("feature %d of row %d is %v: scale it to at most %v", i%m.Cols+1, i/m.Cols+1, v,
			largestFeature)
	}
	return nil
}
