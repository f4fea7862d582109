package evaluate

import "math"

// ridge is the penalty of a coefficient's square, in units of the spread of its feature. It is too small to
// change a figure, and makes the answer unique if features depend on each other or separate all rows.
const ridge = 1e-8

// gram is the lower triangle of the sum of w x x' over rows, row after row.
func (s *sparse) gram(weight []float64) []float64 {
	a := make([]float64, s.width*s.width)
	for i, w := range weight {
		if w == 0 {
			continue
		}
		for k := s.start[i]; k < s.start[i+1]; k++ {
			row := a[int(s.at[k])*s.width:]
			v := w * s.value[k]
			for l := s.start[i]; l <= k; l++ { // features of a row are in rising order
				row[s.at[l]] += v * s.value[l]
			}
		}
	}
	return a
}

// moment is the sum of w y x over rows.
func (s *sparse) moment(weight, y []float64) []float64 {
	b := make([]float64, s.width)
	for i, w := range weight {
		for k := s.start[i]; k < s.start[i+1]; k++ {
			b[s.at[k]] += w * y[i] * s.value[k]
		}
	}
	return b
}

// cholesky replaces the lower triangle of a symmetric matrix by its factor. A feature whose pivot is not above
// its floor depends on earlier ones: its column becomes 0. It returns the number of the other features, the
// rank.
func cholesky(a, floor []float64) int {
	n, rank := len(floor), 0
	for j := range n {
		pivotRow := a[j*n : j*n+j]
		pivot := a[j*n+j]
		for _, v := range pivotRow {
			pivot -= v * v
		}
		if !(pivot > floor[j]) {
			for i := j; i < n; i++ {
				a[i*n+j] = 0
			}
			continue
		}
		rank++
		root := math.Sqrt(pivot)
		a[j*n+j] = root
		for i := j + 1; i < n; i++ {
			row := a[i*n : i*n+j]
			v := a[i*n+j]
			for k, p := range pivotRow {
				v -= row[k] * p
			}
			a[i*n+j] = v / root
		}
	}
	return rank
}

// solve returns the coefficients for the factor of cholesky, 0 for features without a pivot.
func solve(factor, b []float64) []float64 {
	n := len(b)
	x := append([]float64(nil), b...)
	for i := range n {
		if factor[i*n+i] == 0 {
			x[i] = 0
			continue
		}
		for k := range i {
			x[i] -= factor[i*n+k] * x[k]
		}
		x[i] /= factor[i*n+i]
	}
	for i := n - 1; i >= 0; i-- {
		if factor[i*n+i] == 0 {
			continue
		}
		for k := i + 1; k < n; k++ {
			x[i] -= factor[k*n+i] * x[k]
		}
		x[i] /= factor[i*n+i]
	}
	return x
}

// penalized adds the ridge to the diagonal of a matrix and returns the lower limits of its pivots; those of
// constant features are infinite.
func penalized(a, penalty []float64) (floor []float64) {
	n := len(penalty)
	floor = make([]float64, n)
	for j := 1; j < n; j++ {
		a[j*n+j] += penalty[j]
		floor[j] = penalty[j] / 2
		if penalty[j] == 0 {
			floor[j] = math.Inf(1)
		}
	}
	return floor
}

// leastSquares minimizes the sum of w (y - beta.x)^2 and the ridge. The intercept is not penalized, and
// constant features have the coefficient 0.
func leastSquares(s *sparse, y, weight []float64) []float64 {
	penalty := s.spread(weight)
	for j := range penalty {
		penalty[j] *= ridge
	}
	a := s.gram(weight)
	cholesky(a, penalized(a, penalty))
	return solve(a, s.moment(weight, y))
}
