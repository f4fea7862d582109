package evaluate

import (
	"errors"
	"fmt"
	"math"
)

// Matrix is a dense table of features, row after row: cell (i, j) is
// Data[i*Cols+j].
type Matrix struct {
	Rows, Cols int
	Data       []float64
}

// Row returns row i. It shares memory with the matrix.
func (m Matrix) Row(i int) []float64 { return m.Data[i*m.Cols : (i+1)*m.Cols] }

// ErrOneClass says that the rows hold one class only, so that there is nothing
// to tell apart. A collapsed generator produces such tables; the caller
// decides what that is worth.
var ErrOneClass = errors.New("only one class among the rows")

// check refuses a matrix whose shape is inconsistent or that holds a value
// that is not finite.
func (m Matrix) check() error {
	if m.Rows <= 0 || m.Cols <= 0 {
		return fmt.Errorf("matrix of %d rows and %d columns: at least one of each is needed", m.Rows, m.Cols)
	}
	if len(m.Data)/m.Cols != m.Rows || len(m.Data)%m.Cols != 0 {
		return fmt.Errorf("matrix of %d rows and %d columns holds %d cells", m.Rows, m.Cols, len(m.Data))
	}
	for i, v := range m.Data {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("feature %d of row %d is not a finite number", i%m.Cols+1, i/m.Cols+1)
		}
	}
	return nil
}

// checkTraining refuses what no classifier can be fitted to.
func checkTraining(x Matrix, positive []bool) error {
	if err := x.check(); err != nil {
		return err
	}
	if len(positive) != x.Rows {
		return fmt.Errorf("%d rows but %d labels", x.Rows, len(positive))
	}
	_, _, err := countClasses(positive)
	return err
}

// countClasses counts positive and negative rows; ErrOneClass when either is
// missing.
func countClasses(positive []bool) (pos, neg int, err error) {
	for _, p := range positive {
		if p {
			pos++
		} else {
			neg++
		}
	}
	switch {
	case len(positive) == 0:
		return 0, 0, fmt.Errorf("%w: there are no rows", ErrOneClass)
	case pos == 0:
		return pos, neg, fmt.Errorf("%w: all %d are negative", ErrOneClass, neg)
	case neg == 0:
		return pos, neg, fmt.Errorf("%w: all %d are positive", ErrOneClass, pos)
	}
	return pos, neg, nil
}
