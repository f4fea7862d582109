package classify

import (
	"fmt"
	"math"

	"github.com/conclave-dp/conclave/internal/evaluate/measure"
)

// Targets are the rows for fitting a regressor, each with a number. Weights are those of [Rows]. Numbers are
// finite and at most 1e100 in size.
type Targets struct {
	X      Matrix
	Y      []float64
	Weight []float64
}

// Regressor predicts a number. It is not safe for concurrent use.
type Regressor struct {
	model
	learn       func(training) (scorer, error)
	mean, scale float64 // of the target
}

func regressor(name string, learn func(training) (scorer, error)) *Regressor {
	return &Regressor{model: model{name: name}, learn: learn}
}

const (
	// linearPenalty is the default of scikit-learn's Ridge.
	linearPenalty = 1
	// narrow is a fifth of a feature's range.
	narrow = 0.2
)

// Regressors returns the counterparts of four classifiers for numbers, new ones at each call. Settings are
// scikit-learn's defaults unless stated otherwise.
//
// Features are in units of their public range. A synthetic column may be nearly constant. In units of its own
// deviation, real rows would be far outside of it, and a coefficient that is mostly chance would ruin the error. So
// linear regression has a penalty in units of the range, and the perceptron scales by a fifth of the range at
// least.
func Regressors() []*Regressor {
	return []*Regressor{regressor("linear regression", leastSquares(linearPenalty)),
		regressor("random forest", forestRegression),
		regressor("gradient boosting", boostingRegression(boostingTrees)), MLPRegression()}
}

// Fit forgets earlier training, and learns from targets. It fails with [ErrWeight] for unusable weights.
func (r *Regressor) Fit(t Targets) error {
	return r.fit(func() (n training, err error) {
		n, r.mean, r.scale, err = t.prepare()
		n.least = narrow
		return n, err
	}, r.learn)
}

// Predict gives one number per row. It fails before Fit and for another number of columns.
func (r *Regressor) Predict(x Matrix) ([]float64, error) {
	values, err := r.scores(x)
	for i := range values {
		values[i] = r.mean + r.scale*values[i]
	}
	return values, err
}

// prepare checks the targets and drops those of weight 0. The label of each row is its target's distance from the
// mean, in units of the standard deviation scale.
func (t Targets) prepare() (n training, mean, scale float64, err error) {
	if err := t.X.check(); err != nil {
		return n, 0, 0, err
	}
	if len(t.Y) != t.X.Rows {
		return n, 0, 0, fmt.Errorf("%d rows but %d targets", t.X.Rows, len(t.Y))
	}
	for i, v := range t.Y {
		if !(math.Abs(v) <= largestFeature) {
			return n, 0, 0, fmt.Errorf("the target of row %d is %v: it must be finite and at most %v", i+1, v,
				largestFeature)
		}
	}
	if n, err = weigh(t.X, t.Y, t.Weight); err != nil {
		return n, 0, 0, err
	}
	for i, w := range n.weight {
		mean += w * n.label[i]
	}
	mean /= n.total
	for i, w := range n.weight {
		n.label[i] -= mean
		scale += w * n.label[i] * n.label[i]
	}
	scale = math.Sqrt(scale / n.total)
	if scale <= 1e-12*math.Max(1, math.Abs(mean)) {
		scale = 1 // a constant
	}
	for i := range n.label {
		n.label[i] /= scale
	}
	return n, mean, scale, nil
}

// RegressionRMSE fits a regressor to rows and returns the root mean squared error of its predictions for other
// rows, by their weights, in the targets' unit.
func RegressionRMSE(model *Regressor, learn, exam Targets) (float64, error) {
	if err := model.Fit(learn); err != nil {
		return 0, err
	}
	predicted, err := model.Predict(exam.X)
	if err != nil {
		return 0, err
	}
	rmse, err := measure.RMSE(exam.Y, predicted, exam.Weight)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", model.Name(), err)
	}
	return rmse, nil
}
