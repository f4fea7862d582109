package weighted

import (
	"errors"
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"
)

// Regression holds the coefficients of a model fitted to weighted rows, in the order of
// the design's columns.
type Regression struct {
	Coefficients []float64
	// StandardErrors and Covariance are robust (Huber 1967; White 1980): A^-1 B A^-1, with A the curvature of
	// the weighted loss and B the sum of the squares of the rows' weighted derivatives. A row is one
	// independent draw whatever its weight, and the model need not hold.
	StandardErrors []float64
	Covariance     *mat.SymDense
	// ResidualVariance is the weighted mean of the squared residuals, for linear models.
	ResidualVariance float64
}

// WithIntercept puts a 1 in front of each row.
func WithIntercept(x [][]float64) [][]float64 {
	out := make([][]float64, len(x))
	for i, row := range x {
		out[i] = append([]float64{1}, row...)
	}
	return out
}

// largest is the largest size of a number whose square needs no care.
const largest = 1e100

// checkDesign refuses rows of unequal length and numbers that are not finite or too large.
func checkDesign(x [][]float64, targets int) error {
	if len(x) == 0 {
		return ErrNoValues
	}
	if targets != len(x) {
		return fmt.Errorf("%d rows but %d targets: give one each", len(x), targets)
	}
	d := len(x[0])
	if d == 0 {
		return errors.New("the rows have no columns: give one at least, such as that of WithIntercept")
	}
	for i, row := range x {
		if len(row) != d {
			return fmt.Errorf("row %d has %d columns, the first %d: give them all the same", i+1, len(row), d)
		}
		for j, v := range row {
			if !(math.Abs(v) <= largest) {
				return fmt.Errorf("column %d of row %d is %v: it must be finite and at most %v", j+1, i+1, v, largest)
			}
		}
	}
	return nil
}

// checkNumbers does the same for rows with a number to predict.
func checkNumbers(x [][]float64, y []float64) error {
	if err := checkDesign(x, len(y)); err != nil {
		return err
	}
	for i, v := range y {
		if !(math.Abs(v) <= largest) {
			return fmt.Errorf("the target of row %d is %v: it must be finite and at most %v", i+1, v, largest)
		}
	}
	return nil
}

// Linear minimizes the sum of w (y - beta.x)^2. x are the rows of the design. It adds no intercept; see
// WithIntercept.
//
// It fails with ErrNoValues, with ErrWeights, with ErrDependent (also for fewer rows of weight above 0 than
// columns), and for rows of unequal length or numbers that are not finite.
func Linear(x [][]float64, y, weight []float64) (*Regression, error) {
	fail := func(err error) (*Regression, error) { return nil, fmt.Errorf("weighted linear regression: %w", err) }
	if err := checkNumbers(x, y); err != nil {
		return fail(err)
	}
	w, err := shares(len(x), weight)
	if err != nil {
		return fail(err)
	}
	curvature, err := factorize(gram(x, w))
	if err != nil {
		return fail(err)
	}
	weightedY := make([]float64, len(y))
	for i, v := range y {
		weightedY[i] = w[i] * v
	}
	beta := curvature.solve(moment(x, weightedY))
	score := make([]float64, len(y))
	for i, row := range x {
		score[i] = w[i] * (y[i] - dot(row, beta))
	}
	// A second step removes what rounding left of the gradient.
	for j, v := range curvature.solve(moment(x, score)) {
		beta[j] += v
	}
	r := &Regression{Coefficients: beta}
	for i, row := range x {
		residual := y[i] - dot(row, beta)
		score[i] = w[i] * residual
		r.ResidualVariance += score[i] * residual
	}
	r.setCovariance(sandwich(curvature.inverse(), x, score))
	return r, nil
}

func (r *Regression) setCovariance(c *mat.SymDense) {
	r.Covariance = c
	r.StandardErrors = make([]float64, len(r.Coefficients))
	for j := range r.StandardErrors {
		r.StandardErrors[j] = math.Sqrt(math.Max(0, c.At(j, j)))
	}
}

// Logistic minimizes the weighted sum of log(1 + exp(-s beta.x)), with s +1 for rows that are true and -1 for
// others: maximum likelihood. x are as for Linear. It fails as Linear does, and with ErrSeparated if there is
// no minimum.
func Logistic(x [][]float64, y []bool, weight []float64) (*Regression, error) {
	fail := func(err error) (*Regression, error) {
		return nil, fmt.Errorf("weighted logistic regression: %w", err)
	}
	if err := checkDesign(x, len(y)); err != nil {
		return fail(err)
	}
	w, err := shares(len(x), weight)
	if err != nil {
		return fail(err)
	}
	if _, err := factorize(gram(x, w)); err != nil {
		return fail(err)
	}
	p := &logisticLoss{x: x, y: y, weight: w}
	beta, curvature, err := p.minimize(make([]float64, len(x[0])))
	if err != nil {
		return fail(err)
	}
	r := &Regression{Coefficients: beta}
	r.setCovariance(sandwich(curvature.inverse(), x, p.scores(beta)))
	return r, nil
}
