package classify

import (
	"fmt"
	"math"
)

// LinearSVM is a linear support vector machine with the squared hinge loss on
// standardized features: LinearSVC of scikit-learn (Fan et al. 2008) with its
// defaults, the intercept penalized like the weights.
type LinearSVM struct {
	linearModel
	c float64
}

// NewLinearSVM returns a support vector machine that minimizes
//
//	1/2 (|w|^2 + b^2) + c * sum over rows of weight * max(0, 1 - y (w.x + b))^2
//
// where x are the features shifted and scaled to mean 0 and variance 1 over
// the training rows, and y is +1 or -1. c must be positive and finite (Fit says
// so otherwise); scikit-learn's default is 1. The minimum is found by the finite
// Newton method (Keerthi and DeCoste 2005).
func NewLinearSVM(c float64) *LinearSVM { return &LinearSVM{c: c} }

// Name is "linear svm".
func (*LinearSVM) Name() string { return "linear svm" }

// Fit finds the minimum. The work is rows x columns^2 per step, with usually
// fewer than twenty steps.
func (s *LinearSVM) Fit(r Rows) error {
	if !(s.c > 0) || math.IsInf(1/s.c, 0) || math.IsInf(s.c, 0) {
		return fmt.Errorf("linear svm: c is %v: it must be positive and finite", s.c)
	}
	t, err := r.prepare()
	if err != nil {
		return fmt.Errorf("linear svm: %w", err)
	}
	mean, scale := t.standardization()
	// The objective divided by c.
	problem := linearLoss{
		x: standardize(t.x, mean, scale), total: t.total, l2: 1 / s.c, penalizeIntercept: true,
		value: func(i int, z float64) float64 {
			lack := math.Max(0, 1-(2*t.label[i]-1)*z)
			return t.weight[i] * (lack * lack)
		},
		derivatives: func(i int, z float64) (first, second float64) {
			y := 2*t.label[i] - 1
			lack := 1 - y*z
			if lack <= 0 {
				return 0, 0
			}
			return -2 * t.weight[i] * y * lack, 2 * t.weight[i]
		},
	}
	theta := make([]float64, t.x.Cols+1)
	if err := problem.minimize(theta); err != nil {
		return fmt.Errorf("linear svm: %w", err)
	}
	s.set(mean, scale, theta)
	return nil
}

// Score gives w.x + b, the distance from the boundary in units of the margin.
func (s *LinearSVM) Score(x Matrix) ([]float64, error) {
	scores, err := s.decisions(x)
	if err != nil {
		return nil, fmt.Errorf("linear svm: %w", err)
	}
	return scores, nil
}
