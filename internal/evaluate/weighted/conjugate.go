package weighted

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/conclave-dp/conclave/internal/evaluate/measure"
)

// NormalInverseGamma is a distribution of the coefficients beta and the noise variance s^2 of a linear
// regression: s^2 is inverse gamma with Shape and Rate, and beta given s^2 is normal with Mean and covariance
// s^2 Precision^-1. It is conjugate: prior and posterior both have this form.
type NormalInverseGamma struct {
	Mean        []float64
	Precision   *mat.SymDense
	Shape, Rate float64
}

// NewNormalInverseGamma is a prior of independent coefficients; deviation is their standard
// deviation in units of the noise's.
func NewNormalInverseGamma(mean, deviation []float64, shape, rate float64) NormalInverseGamma {
	p := mat.NewSymDense(max(1, len(deviation)), nil)
	for j, s := range deviation {
		p.SetSym(j, j, 1/(s*s))
	}
	return NormalInverseGamma{Mean: mean, Precision: p, Shape: shape, Rate: rate}
}

// Update returns the exact posterior pi(theta) prod f(y_i | x_i, theta)^w_i of a linear regression with normal
// noise (Ghalebikesabi et al. 2022, equation 3). With W the weights, P, m, a, b this distribution:
//
//	P' = P + X'WX,  m' = P'^-1 (P m + X'Wy),  a' = a + sum(w)/2,
//	b' = b + (sum w (y - x.m')^2 + (m' - m)' P (m' - m))/2
//
// A weight of 2 counts as two rows: the package comment says how to scale weights. It fails as Linear does, but
// not for dependent columns. It also fails for a prior of other coefficients, a precision that is not positive
// definite, or Shape or Rate not above 0.
func (p NormalInverseGamma) Update(x [][]float64, y, weight []float64) (NormalInverseGamma, error) {
	fail := func(err error) (NormalInverseGamma, error) {
		return NormalInverseGamma{}, fmt.Errorf("linear posterior: %w", err)
	}
	if err := checkNumbers(x, y); err != nil {
		return fail(err)
	}
	w, err := counts(len(x), weight)
	if err != nil {
		return fail(err)
	}
	if _, err := p.check(len(x[0])); err != nil {
		return fail(err)
	}
	next := NormalInverseGamma{Precision: gram(x, w), Shape: p.Shape + measure.Sum(w)/2, Rate: p.Rate}
	next.Precision.AddSym(next.Precision, p.Precision)
	f, err := factorize(next.Precision)
	if err != nil {
		return fail(err)
	}
	// Compute the step from the prior's mean, which avoids loss of digits.
	pull := make([]float64, len(y))
	for i, row := range x {
		pull[i] = w[i] * (y[i] - dot(row, p.Mean))
	}
	step := f.solve(moment(x, pull))
	next.Mean = make([]float64, len(step))
	for j := range step {
		next.Mean[j] = p.Mean[j] + step[j]
	}
	for i, row := range x {
		residual := y[i] - dot(row, next.Mean)
		next.Rate += w[i] * residual * residual / 2
	}
	next.Rate += quadratic(p.Precision, step) / 2
	if math.IsInf(next.Rate, 0) || math.IsNaN(next.Rate) {
		return fail(errOverflow)
	}
	return next, nil
}

// check refuses values that are not a distribution of d coefficients, and factorizes its precision.
func (p NormalInverseGamma) check(d int) (*factored, error) {
	if len(p.Mean) != d || p.Precision == nil || p.Precision.SymmetricDim() != d {
		return nil, fmt.Errorf("the prior is of %d coefficients, the rows have %d columns: give one for each",
			len(p.Mean), d)
	}
	if !(p.Shape > 0 && p.Rate > 0) || math.IsInf(p.Shape+p.Rate, 0) {
		return nil, fmt.Errorf("the prior's shape is %v and its rate %v: both must be positive and finite", p.Shape,
			p.Rate)
	}
	f, err := factorize(p.Precision)
	if err != nil {
		return nil, errors.New(
			"the prior's precision is not positive definite: give each coefficient a finite standard deviation above 0")
	}
	return f, finite("the prior's mean", p.Mean, d)
}

// Coefficient is the marginal distribution of coefficient j: Student's t with 2 Shape degrees of freedom. It fails
// for an unknown coefficient.
func (p NormalInverseGamma) Coefficient(j int) (distuv.StudentsT, error) {
	f, err := p.check(len(p.Mean))
	if err == nil && (j < 0 || j >= len(p.Mean)) {
		err = fmt.Errorf("there is no coefficient %d of %d", j, len(p.Mean))
	}
	if err != nil {
		return distuv.StudentsT{}, fmt.Errorf("marginal of a coefficient: %w", err)
	}
	return distuv.StudentsT{Mu: p.Mean[j], Sigma: math.Sqrt(p.Rate / p.Shape * f.inverse().At(j, j)), Nu: 2 * p.Shape},
		nil
}

// Variance returns the distribution of the noise's variance.
func (p NormalInverseGamma) Variance() distuv.InverseGamma {
	return distuv.InverseGamma{Alpha: p.Shape, Beta: p.Rate}
}

// Sample draws n independent coefficients and noise variances. The same seed gives the
// same draws. It protects nothing.
func (p NormalInverseGamma) Sample(n int, seed uint64) (beta [][]float64, variance []float64, err error) {
	f, err := p.check(len(p.Mean))
	if err != nil {
		return nil, nil, fmt.Errorf("sample a posterior: %w", err)
	}
	source := rand.NewPCG(seed, 0x119)
	random := rand.New(source)
	gamma := distuv.Gamma{Alpha: p.Shape, Beta: p.Rate, Src: source}
	z := mat.NewVecDense(len(p.Mean), nil)
	for range n {
		v := 1 / gamma.Rand()
		for j := range p.Mean {
			z.SetVec(j, random.NormFloat64()*math.Sqrt(v))
		}
		b := make([]float64, len(p.Mean))
		f.correlate(b, z)
		for j := range b {
			b[j] += p.Mean[j]
		}
		beta, variance = append(beta, b), append(variance, v)
	}
	return beta, variance, nil
}
