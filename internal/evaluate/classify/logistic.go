package classify

import (
	"fmt"
	"math"
)

// Logistic is logistic regression with an L2 penalty on standardized features.
type Logistic struct {
	linearModel
	l2 float64
}

// NewLogistic returns a logistic regression that minimizes
//
//	sum over rows of weight * log(1 + exp(-y (w.x + b))) + l2/2 |w|^2
//
// where x are the features shifted and scaled to mean 0 and variance 1 over
// the training rows, y is +1 or -1, and the intercept b is not penalized. l2
// is 1/C of scikit-learn. It must be positive and finite (Fit says so
// otherwise): without it separable rows and one-hot columns have no unique
// answer. The minimum is found by Newton's method with step halving.
func NewLogistic(l2 float64) *Logistic { return &Logistic{l2: l2} }

// Name is "logistic regression".
func (*Logistic) Name() string { return "logistic regression" }

// Fit finds the minimum. The work is rows x columns^2 per step, with usually
// fewer than ten steps.
func (l *Logistic) Fit(r Rows) error {
	if !(l.l2 > 0) || math.IsInf(l.l2, 0) {
		return fmt.Errorf("logistic regression: l2 is %v: it must be positive and finite", l.l2)
	}
	t, err := r.prepare()
	if err != nil {
		return fmt.Errorf("logistic regression: %w", err)
	}
	mean, scale := t.standardization()
	problem := linearLoss{
		x: standardize(t.x, mean, scale), total: t.total, l2: l.l2,
		value: func(i int, z float64) float64 {
			return t.weight[i] * (softplus(z) - t.label[i]*z)
		},
		derivatives: func(i int, z float64) (first, second float64) {
			p := sigmoid(z)
			return t.weight[i] * (p - t.label[i]), t.weight[i] * (p * (1 - p))
		},
	}
	// The intercept starts at the log odds of the classes, which is its value at
	// infinite l2.
	theta := make([]float64, t.x.Cols+1)
	theta[t.x.Cols] = t.logOdds()
	if err := problem.minimize(theta); err != nil {
		return fmt.Errorf("logistic regression: %w", err)
	}
	l.set(mean, scale, theta)
	return nil
}

// Score gives the probability of the positive class.
func (l *Logistic) Score(x Matrix) ([]float64, error) {
	scores, err := l.decisions(x)
	if err != nil {
		return nil, fmt.Errorf("logistic regression: %w", err)
	}
	for i, z := range scores {
		scores[i] = sigmoid(z)
	}
	return scores, nil
}
