package weighted

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/conclave-dp/conclave/internal/evaluate/measure"
)

// Normal is a normal distribution of coefficients: a prior, or a posterior's Laplace
// approximation.
type Normal struct {
	Mean       []float64
	Covariance *mat.SymDense
}

// NewNormal returns independent coefficients with these means and standard deviations.
func NewNormal(mean, deviation []float64) Normal {
	c := mat.NewSymDense(max(1, len(deviation)), nil)
	for j, s := range deviation {
		c.SetSym(j, j, s*s)
	}
	return Normal{Mean: mean, Covariance: c}
}

// check refuses values that are not a distribution of d coefficients, and returns its precision.
func (n Normal) check(d int) (*mat.SymDense, error) {
	if len(n.Mean) != d || n.Covariance == nil || n.Covariance.SymmetricDim() != d {
		return nil, fmt.Errorf("the prior is of %d coefficients, the rows have %d columns: give one for each",
			len(n.Mean), d)
	}
	if err := finite("the prior's mean", n.Mean, d); err != nil {
		return nil, err
	}
	f, err := factorize(n.Covariance)
	if err != nil {
		return nil, errors.New("the prior's covariance is not positive definite: give each coefficient a " +
			"standard deviation above 0")
	}
	return f.inverse(), nil
}

// LogisticPosterior is the posterior of the coefficients of a logistic regression.
type LogisticPosterior struct {
	// Laplace is the normal distribution with the posterior's mode and its curvature there (Tierney and Kadane
	// 1986). For many rows it is close to the posterior; for few rows use Sample.
	Laplace Normal
	loss    *logisticLoss
	scale   *factored // of the curvature at the mode
}

// UpdateLogistic returns the posterior pi(theta) prod f(y_i | x_i, theta)^w_i of a logistic regression
// (Ghalebikesabi et al. 2022, equation 3), with n as prior. A weight of 2 counts as two rows: the package
// comment says how to scale weights. x are the rows of the design, as for Logistic.
//
// It fails as Logistic does, but never for dependent columns or separated rows. It also fails for a prior of
// other coefficients or without spread.
func (n Normal) UpdateLogistic(x [][]float64, y []bool, weight []float64) (*LogisticPosterior, error) {
	fail := func(err error) (*LogisticPosterior, error) { return nil, fmt.Errorf("logistic posterior: %w", err) }
	if err := checkDesign(x, len(y)); err != nil {
		return fail(err)
	}
	weight, err := counts(len(x), weight)
	if err != nil {
		return fail(err)
	}
	precision, err := n.check(len(x[0]))
	if err != nil {
		return fail(err)
	}
	p := &logisticLoss{x: x, y: y, weight: weight, mean: n.Mean, precision: precision}
	mode, curvature, err := p.minimize(append([]float64(nil), n.Mean...))
	if err != nil {
		return fail(
			errors.New("no mode was found: the prior is too wide for separable rows; use a narrower one"))
	}
	return &LogisticPosterior{Laplace: Normal{Mean: mode, Covariance: curvature.inverse()}, loss: p, scale: curvature},
		nil
}

// LogDensity is the logarithm of the posterior's density at theta, up to a constant.
func (p *LogisticPosterior) LogDensity(theta []float64) float64 { return -p.loss.value(theta) }

// counts returns weights unchanged, as numbers of rows.
func counts(rows int, weight []float64) ([]float64, error) {
	if rows == 0 {
		return nil, ErrNoValues
	}
	if err := measure.CheckWeights(rows, weight); err != nil {
		return nil, err
	}
	if weight == nil {
		weight = slices.Repeat([]float64{1}, rows)
	}
	if total := measure.Sum(weight); math.IsInf(total, 0) || total > largest {
		return nil, fmt.Errorf("%w: they add up to %v: scale them to a number of rows", ErrWeights, total)
	}
	return weight, nil
}
