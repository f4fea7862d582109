package classify

import (
	"errors"
	"math"

	"gonum.org/v1/gonum/mat"
)

const (
	newtonSteps     = 100
	newtonHalvings  = 40
	newtonTolerance = 1e-10 // for the largest component of the mean gradient
)

// linearLoss is a convex problem: the sum over rows of a loss of the linear function z = w.x + b, plus l2/2 |w|^2.
// If asked, the intercept b is penalized, too.
type linearLoss struct {
	x                 Matrix
	total             float64 // weight of the rows
	l2                float64
	penalizeIntercept bool
	value             func(row int, z float64) float64
	derivatives       func(row int, z float64) (first, second float64)
}

// minimize runs Newton's method with step halving from theta (weights, then intercept) and stores the minimum
// there. If the second derivative jumps, as for the squared hinge, this is the finite Newton method (Keerthi and
// DeCoste 2005).
func (p *linearLoss) minimize(theta []float64) error {
	d := p.x.Cols + 1
	gradient := mat.NewVecDense(d, nil)
	step := mat.NewVecDense(d, nil)
	trial := make([]float64, d)
	// Rows times the root of the second derivative, transposed, so that the
	// Hessian is one product.
	weighted := mat.NewDense(p.x.Rows, d, nil)
	penalized := d - 1
	if p.penalizeIntercept {
		penalized = d
	}

	objective := p.at(theta)
	for range newtonSteps {
		gradient.Zero()
		g := gradient.RawVector().Data
		for i := range p.x.Rows {
			row := p.x.Row(i)
			first, second := p.derivatives(i, linear(theta, row))
			root := math.Sqrt(second)
			out := weighted.RawRowView(i)
			for j, v := range row {
				g[j] += first * v
				out[j] = root * v
			}
			g[d-1] += first
			out[d-1] = root
		}
		largest := 0.0
		for j := range g {
			if j < penalized {
				g[j] += p.l2 * theta[j]
			}
			largest = math.Max(largest, math.Abs(g[j]))
		}
		if largest <= newtonTolerance*p.total {
			return nil
		}

		hessian := mat.NewSymDense(d, nil)
		hessian.SymOuterK(1, weighted.T())
		for j := range d {
			// The curvature of a free intercept may round to zero on separable rows, and so may a penalty next to
			// heavy rows; this only shortens the step.
			ridge := 1e-12 * p.total
			if j < penalized {
				ridge = math.Max(ridge, p.l2)
			}
			hessian.SetSym(j, j, hessian.At(j, j)+ridge)
		}
		var factor mat.Cholesky
		if !factor.Factorize(hessian) {
			return errors.New("the features are too nearly dependent: penalize more")
		}
		if err := factor.SolveVecTo(step, gradient); err != nil {
			var condition mat.Condition
			if !errors.As(err, &condition) {
				return err
			}
		}
		next, moved := p.halve(theta, step.RawVector().Data, trial, objective)
		if !moved {
			return nil // floating point has no smaller value: this is the minimum
		}
		objective = next
	}
	return errors.New("no minimum found: penalize more")
}

// halve goes along the Newton step, halving it until the objective falls.
func (p *linearLoss) halve(theta, step, trial []float64, objective float64) (float64, bool) {
	size := 1.0
	for range newtonHalvings {
		for j := range theta {
			trial[j] = theta[j] - size*step[j]
		}
		if next := p.at(trial); next < objective {
			copy(theta, trial)
			return next, true
		}
		size /= 2
	}
	return objective, false
}

func (p *linearLoss) at(theta []float64) float64 {
	sum := 0.0
	for i := range p.x.Rows {
		sum += p.value(i, linear(theta, p.x.Row(i)))
	}
	penalty := 0.0
	for _, w := range theta[:p.x.Cols] {
		penalty += w * w
	}
	if p.penalizeIntercept {
		penalty += theta[p.x.Cols] * theta[p.x.Cols]
	}
	return sum + p.l2/2*penalty
}

func linear(theta, row []float64) float64 {
	z := theta[len(row)]
	for j, v := range row {
		z += theta[j] * v
	}
	return z
}
