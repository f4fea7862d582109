package classify

import (
	"errors"
	"math"
)

// Classifier tells positive from negative rows. Fit forgets what was learned
// before. Score gives one number per row, higher meaning more likely positive;
// it fails before Fit and for another number of columns.
//
// Fit reports [measure.ErrOneClass] when the training rows hold one class only.
type Classifier interface {
	Name() string
	Fit(x Matrix, positive []bool) error
	Score(x Matrix) ([]float64, error)
}

// Models returns the yardsticks used by default: one linear model and one that
// is not.
func Models() []Classifier {
	return []Classifier{NewLogistic(1), NewBoosting(BoostingOptions{})}
}

var errNotFitted = errors.New("the model has not been fitted: call Fit first")

// sigmoid is the logistic function; it does not overflow at either end.
func sigmoid(z float64) float64 {
	if z >= 0 {
		return 1 / (1 + math.Exp(-z))
	}
	e := math.Exp(z)
	return e / (1 + e)
}

// softplus is log(1+exp(z)) without overflow.
func softplus(z float64) float64 {
	return math.Max(z, 0) + math.Log1p(math.Exp(-math.Abs(z)))
}
