package classify

import (
	"fmt"
	"math"

	"github.com/conclave-dp/conclave/internal/evaluate/measure"
)

// Targets are what a regressor is fitted to: rows with a number each. Weights are those
// of [Rows]. Numbers are finite and at most 1e100 in size.
type Targets struct {
	X      Matrix
	Y      []float64
	Weight []float64
}

// Regressor predicts a number. Fit forgets what was learned before, Predict fails before
// Fit and for another number of columns. A regressor is not safe for concurrent use. Fit
// reports [ErrWeight] for weights that it cannot use.
type Regressor interface {
	Name() string
	Fit(t Targets) error
	Predict(x Matrix) ([]float64, error)
}

// Regressors returns the counterparts of four classifiers for numbers, new ones at each
// call. Settings are scikit-learn's defaults where nothing else is said.
func Regressors() []Regressor {
	return []Regressor{NewLinearRegression(), NewForestRegression(BaggingOptions{}),
		NewBoostingRegression(FirstOrderOptions{}), NewMLPRegression(MLPOptions{})}
}

// numbers holds targets that were checked: the label of each row is its target in
// standard deviations from the mean.
type numbers struct {
	training
	mean, scale float64
}

// prepare checks the targets and leaves out those of weight 0.
func (t Targets) prepare() (numbers, error) {
	if err := t.X.check(); err != nil {
		return numbers{}, err
	}
	if len(t.Y) != t.X.Rows {
		return numbers{}, fmt.Errorf("%d rows but %d targets", t.X.Rows, len(t.Y))
	}
	for i, v := range t.Y {
		if !(math.Abs(v) <= largestFeature) {
			return numbers{}, fmt.Errorf("the target of row %d is %v: it must be finite and at most %v", i+1, v,
				largestFeature)
		}
	}
	// Targets go along as a last column while rows without weight are left out.
	wide := Rows{X: Matrix{Rows: t.X.Rows, Cols: t.X.Cols + 1}, Positive: make([]bool, t.X.Rows), Weight: t.Weight}
	for i, v := range t.Y {
		wide.X.Data = append(append(wide.X.Data, t.X.Row(i)...), v)
	}
	kept, err := wide.withWeight()
	if err != nil {
		return numbers{}, err
	}
	n := numbers{training: training{
		x: Matrix{Rows: kept.X.Rows, Cols: t.X.Cols}, weight: kept.Weight, label: make([]float64, kept.X.Rows),
		uniform: true,
	}}
	for i, w := range kept.Weight {
		row := kept.X.Row(i)
		n.x.Data = append(n.x.Data, row[:t.X.Cols]...)
		n.label[i] = row[t.X.Cols]
		n.mean += w * n.label[i]
		n.total += w
		n.uniform = n.uniform && w == 1
	}
	n.mean /= n.total
	for i, w := range n.weight {
		n.label[i] -= n.mean
		n.scale += w * n.label[i] * n.label[i]
	}
	n.scale = math.Sqrt(n.scale / n.total)
	if n.scale <= 1e-12*math.Max(1, math.Abs(n.mean)) {
		n.scale = 1 // a constant
	}
	for i := range n.label {
		n.label[i] /= n.scale
	}
	return n, nil
}

// unscaled turns predictions in standard deviations into those in the target's unit.
func unscaled(values []float64, mean, scale float64) []float64 {
	for i := range values {
		values[i] = mean + scale*values[i]
	}
	return values
}

// RegressionRMSE fits a regressor to rows and gives the root mean squared error of its
// predictions for others, by their weights, in the targets' unit.
func RegressionRMSE(model Regressor, learn, exam Targets) (float64, error) {
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

// LinearRegression is least squares on standardized features, with a penalty of 1e-8 of
// a row, which only makes the answer unique where features depend on each other.
type LinearRegression struct{ linearModel }

// NewLinearRegression returns a linear regression.
func NewLinearRegression() *LinearRegression { return &LinearRegression{} }

// Name is "linear regression".
func (*LinearRegression) Name() string { return "linear regression" }

// Fit finds the minimum.
func (l *LinearRegression) Fit(t Targets) error {
	n, err := t.prepare()
	if err != nil {
		return fmt.Errorf("linear regression: %w", err)
	}
	mean, scale := n.standardization()
	problem := linearLoss{
		x: standardize(n.x, mean, scale), total: n.total, l2: 1e-8 * n.total,
		value:       func(i int, z float64) float64 { return n.weight[i] * (z - n.label[i]) * (z - n.label[i]) / 2 },
		derivatives: func(i int, z float64) (float64, float64) { return n.weight[i] * (z - n.label[i]), n.weight[i] },
	}
	theta := make([]float64, n.x.Cols+1)
	if err := problem.minimize(theta); err != nil {
		return fmt.Errorf("linear regression: %w", err)
	}
	for j := range theta {
		theta[j] *= n.scale
	}
	theta[n.x.Cols] += n.mean
	l.set(mean, scale, theta)
	return nil
}

// Predict gives the linear function's values.
func (l *LinearRegression) Predict(x Matrix) ([]float64, error) {
	values, err := l.decisions(x)
	if err != nil {
		return nil, fmt.Errorf("linear regression: %w", err)
	}
	return values, nil
}
