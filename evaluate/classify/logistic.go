package classify

import (
	"errors"
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/conclave-dp/conclave/evaluate/measure"
)

const (
	newtonSteps     = 100
	newtonHalvings  = 40
	newtonTolerance = 1e-10 // on the largest component of the mean gradient
)

// Logistic is logistic regression with an L2 penalty on standardized features.
type Logistic struct {
	l2          float64
	mean, scale []float64
	weights     []float64 // per standardized feature
	intercept   float64
}

// NewLogistic returns a logistic regression that minimizes
//
//	sum over rows of log(1 + exp(-y (w.x + b))) + l2/2 |w|^2
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
func (l *Logistic) Fit(x Matrix, positive []bool) error {
	if !(l.l2 > 0) || math.IsInf(l.l2, 0) {
		return fmt.Errorf("logistic regression: l2 is %v: it must be positive and finite", l.l2)
	}
	if err := checkTraining(x, positive); err != nil {
		return fmt.Errorf("logistic regression: %w", err)
	}
	l.mean, l.scale = standardization(x)
	features := l.standardize(x)
	labels := make([]float64, x.Rows)
	for i, p := range positive {
		if p {
			labels[i] = 1
		}
	}
	// theta holds the weights, then the intercept. The intercept starts at the
	// log odds of the classes, which is its value at infinite l2.
	pos, neg, _ := measure.CountClasses(positive)
	theta := make([]float64, x.Cols+1)
	theta[x.Cols] = math.Log(float64(pos) / float64(neg))
	if err := minimizeLogLoss(features, labels, l.l2, theta); err != nil {
		return fmt.Errorf("logistic regression: %w", err)
	}
	l.weights, l.intercept = theta[:x.Cols], theta[x.Cols]
	return nil
}

// Score gives the probability of the positive class.
func (l *Logistic) Score(x Matrix) ([]float64, error) {
	if l.weights == nil {
		return nil, fmt.Errorf("logistic regression: %w", errNotFitted)
	}
	if err := x.check(); err != nil {
		return nil, fmt.Errorf("logistic regression: %w", err)
	}
	if x.Cols != len(l.weights) {
		return nil, fmt.Errorf("logistic regression: fitted to %d columns, asked about %d", len(l.weights), x.Cols)
	}
	scores := make([]float64, x.Rows)
	for i := range scores {
		z := l.intercept
		for j, v := range x.Row(i) {
			z += l.weights[j] * (v - l.mean[j]) / l.scale[j]
		}
		scores[i] = sigmoid(z)
	}
	return scores, nil
}

// Coefficients gives the weights per feature in the features' own scale, and
// the intercept that belongs to them; nil before Fit.
func (l *Logistic) Coefficients() (weights []float64, intercept float64) {
	if l.weights == nil {
		return nil, 0
	}
	weights = make([]float64, len(l.weights))
	intercept = l.intercept
	for j, w := range l.weights {
		weights[j] = w / l.scale[j]
		intercept -= weights[j] * l.mean[j]
	}
	return weights, intercept
}

// standardization gives each column's mean and standard deviation (divisor n;
// 1 for a constant column, which then never gets a weight).
func standardization(x Matrix) (mean, scale []float64) {
	mean, scale = make([]float64, x.Cols), make([]float64, x.Cols)
	for i := range x.Rows {
		for j, v := range x.Row(i) {
			mean[j] += v
		}
	}
	n := float64(x.Rows)
	for j := range mean {
		mean[j] /= n
	}
	for i := range x.Rows {
		for j, v := range x.Row(i) {
			d := v - mean[j]
			scale[j] += d * d
		}
	}
	for j := range scale {
		scale[j] = math.Sqrt(scale[j] / n)
		// Rounding of the mean leaves a constant column a little above zero.
		if scale[j] <= 1e-12*math.Max(1, math.Abs(mean[j])) {
			scale[j] = 1
		}
	}
	return mean, scale
}

func (l *Logistic) standardize(x Matrix) Matrix {
	out := Matrix{Rows: x.Rows, Cols: x.Cols, Data: make([]float64, len(x.Data))}
	for i := range x.Rows {
		row := out.Row(i)
		for j, v := range x.Row(i) {
			row[j] = (v - l.mean[j]) / l.scale[j]
		}
	}
	return out
}

// minimizeLogLoss runs Newton's method from theta (weights, then intercept) and
// leaves the minimum there.
func minimizeLogLoss(x Matrix, labels []float64, l2 float64, theta []float64) error {
	d := x.Cols + 1
	n := float64(x.Rows)
	gradient := mat.NewVecDense(d, nil)
	step := mat.NewVecDense(d, nil)
	trial := make([]float64, d)
	// Rows times sqrt(p(1-p)), transposed, so that the Hessian is one product.
	weighted := mat.NewDense(x.Rows, d, nil)

	objective := logLoss(x, labels, l2, theta)
	for range newtonSteps {
		gradient.Zero()
		g := gradient.RawVector().Data
		for i := range x.Rows {
			row := x.Row(i)
			p := sigmoid(linear(theta, row))
			residual := p - labels[i]
			root := math.Sqrt(p * (1 - p))
			out := weighted.RawRowView(i)
			for j, v := range row {
				g[j] += residual * v
				out[j] = root * v
			}
			g[d-1] += residual
			out[d-1] = root
		}
		largest := 0.0
		for j := range g {
			if j < d-1 {
				g[j] += l2 * theta[j]
			}
			largest = math.Max(largest, math.Abs(g[j]))
		}
		if largest <= newtonTolerance*n {
			return nil
		}

		hessian := mat.NewSymDense(d, nil)
		hessian.SymOuterK(1, weighted.T())
		for j := range d {
			// The intercept's curvature may round to zero on separable rows.
			ridge := l2
			if j == d-1 {
				ridge = 1e-12 * n
			}
			hessian.SetSym(j, j, hessian.At(j, j)+ridge)
		}
		var factor mat.Cholesky
		if !factor.Factorize(hessian) {
			return errors.New("the features are too nearly dependent: raise l2")
		}
		if err := factor.SolveVecTo(step, gradient); err != nil {
			var condition mat.Condition
			if !errors.As(err, &condition) {
				return err
			}
		}
		next, moved := halve(x, labels, l2, theta, step.RawVector().Data, trial, objective)
		if !moved {
			return nil // no smaller value in floating point: this is the minimum
		}
		objective = next
	}
	return errors.New("no minimum found: raise l2")
}

// halve goes along the Newton step, halving it until the objective falls.
func halve(x Matrix, labels []float64, l2 float64, theta, step, trial []float64, objective float64) (float64, bool) {
	size := 1.0
	for range newtonHalvings {
		for j := range theta {
			trial[j] = theta[j] - size*step[j]
		}
		if next := logLoss(x, labels, l2, trial); next < objective {
			copy(theta, trial)
			return next, true
		}
		size /= 2
	}
	return objective, false
}

func logLoss(x Matrix, labels []float64, l2 float64, theta []float64) float64 {
	sum := 0.0
	for i := range x.Rows {
		z := linear(theta, x.Row(i))
		sum += softplus(z) - labels[i]*z
	}
	penalty := 0.0
	for _, w := range theta[:x.Cols] {
		penalty += w * w
	}
	return sum + l2/2*penalty
}

func linear(theta, row []float64) float64 {
	z := theta[len(row)]
	for j, v := range row {
		z += theta[j] * v
	}
	return z
}
