package weighted

import (
	"errors"
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"
)

// ErrDependent means that the columns of a design depend on each other, so that their coefficients are not
// determined: leave one out, or use a prior.
var ErrDependent = errors.New("columns depend linearly on each other")

// worstCondition is the largest accepted condition number of a matrix that is scaled to ones on its diagonal.
const worstCondition = 1e13

// factored is a positive definite matrix, scaled to ones on its diagonal so that units of columns do not
// matter.
type factored struct {
	chol  mat.Cholesky
	scale []float64
}

func factorize(a *mat.SymDense) (*factored, error) {
	d := a.SymmetricDim()
	f := &factored{scale: make([]float64, d)}
	for j := range d {
		if v := a.At(j, j); v > 0 && !math.IsInf(v, 0) {
			f.scale[j] = 1 / math.Sqrt(v)
		} else {
			return nil, fmt.Errorf("column %d: %w", j+1, ErrDependent)
		}
	}
	unit := mat.NewSymDense(d, nil)
	for i := range d {
		for j := i; j < d; j++ {
			unit.SetSym(i, j, a.At(i, j)*f.scale[i]*f.scale[j])
		}
	}
	if !f.chol.Factorize(unit) || !(f.chol.Cond() <= worstCondition) {
		return nil, ErrDependent
	}
	return f, nil
}

func (f *factored) solve(b []float64) []float64 {
	v := mat.NewVecDense(len(b), nil)
	for j := range b {
		v.SetVec(j, b[j]*f.scale[j])
	}
	_ = f.chol.SolveVecTo(v, v) // the condition was checked
	out := make([]float64, len(b))
	for j := range out {
		out[j] = v.AtVec(j) * f.scale[j]
	}
	return out
}

func (f *factored) inverse() *mat.SymDense {
	inverse := mat.NewSymDense(len(f.scale), nil)
	_ = f.chol.InverseTo(inverse) // the condition was checked
	for i := range f.scale {
		for j := i; j < len(f.scale); j++ {
			inverse.SetSym(i, j, inverse.At(i, j)*f.scale[i]*f.scale[j])
		}
	}
	return inverse
}

// gram is the sum of v_i x_i x_i'.
func gram(x [][]float64, v []float64) *mat.SymDense {
	d := len(x[0])
	out := mat.NewSymDense(d, nil)
	a := out.RawSymmetric() // only the upper triangle is read
	for i, row := range x {
		if v[i] == 0 {
			continue
		}
		for j, xj := range row {
			line, c := a.Data[j*a.Stride:], v[i]*xj
			for k := j; k < d; k++ {
				line[k] += c * row[k]
			}
		}
	}
	return out
}

func moment(x [][]float64, v []float64) []float64 {
	out := make([]float64, len(x[0]))
	for i, row := range x {
		for j, xj := range row {
			out[j] += v[i] * xj
		}
	}
	return out
}

// sandwich is bread meat bread, with meat the sum of score_i^2 x_i x_i'.
func sandwich(bread *mat.SymDense, x [][]float64, score []float64) *mat.SymDense {
	square := make([]float64, len(score))
	for i, s := range score {
		square[i] = s * s
	}
	var left, whole mat.Dense
	left.Mul(bread, gram(x, square))
	whole.Mul(&left, bread)
	d := bread.SymmetricDim()
	out := mat.NewSymDense(d, nil)
	for i := range d {
		for j := i; j < d; j++ {
			out.SetSym(i, j, (whole.At(i, j)+whole.At(j, i))/2)
		}
	}
	return out
}

// quadratic is v' a v.
func quadratic(a *mat.SymDense, v []float64) float64 {
	u := mat.NewVecDense(len(v), v)
	return mat.Inner(u, a, u)
}
