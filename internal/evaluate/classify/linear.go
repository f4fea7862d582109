package classify

import (
	"math"
	"slices"
)

// linearModel is a linear function of standardized features.
type linearModel struct {
	mean, scale []float64 // per feature
	theta       []float64 // weights per standardized feature, then the intercept
}

func (l linearModel) value(row []float64) float64 {
	z := l.theta[len(row)]
	for j, v := range row {
		z += l.theta[j] * (v - l.mean[j]) / l.scale[j]
	}
	return z
}

// decisions returns the function's value for each row.
func decisions(l linearModel, err error) (scorer, error) { return byRow(l.value), err }

// logistic is logistic regression that minimizes
//
//	sum over rows of weight * log(1 + exp(-y (w.x + b))) + l2/2 |w|^2
//
// Here x are the features shifted and scaled to mean 0 and variance 1 over the training rows, y is +1 or -1,
// and the intercept b is not penalized. l2 is 1/C of scikit-learn. It is positive: otherwise separable rows and
// one-hot columns have no unique answer. Scores are probabilities. The work is rows x columns^2 per step of
// Newton's method, with usually fewer than ten steps.
func logistic(l2 float64) *Classifier {
	return classifier("logistic regression", 0.5, func(t training) (scorer, error) {
		l, err := fitLogistic(t, l2)
		return byRow(func(row []float64) float64 { return sigmoid(l.value(row)) }), err
	})
}

func fitLogistic(t training, l2 float64) (linearModel, error) {
	mean, scale := t.standardization()
	problem := linearLoss{
		x: standardize(t.x, mean, scale), total: t.total, l2: l2,
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
	return linearModel{mean, scale, theta}, problem.minimize(theta)
}

// linearSVM is a linear support vector machine with the squared hinge loss on standardized
// features: LinearSVC of scikit-learn (Fan et al. 2008), the intercept penalized like the
// weights. It minimizes
//
//	1/2 (|w|^2 + b^2) + c * sum over rows of weight * max(0, 1 - y (w.x + b))^2
//
// where x are the features shifted and scaled to mean 0 and variance 1 over
// the training rows, y is +1 or -1, and c is positive; scikit-learn's default is 1. The minimum
// is found by the finite Newton method (Keerthi and DeCoste 2005). Scores are w.x + b, the
// distance from the boundary in units of the margin.
func linearSVM(c float64) *Classifier {
	return classifier("linear svm", 0, func(t training) (scorer, error) { return decisions(fitSVM(t, c)) })
}

func fitSVM(t training, c float64) (linearModel, error) {
	mean, scale := t.standardization()
	// The objective divided by c.
	problem := linearLoss{
		x: standardize(t.x, mean, scale), total: t.total, l2: 1 / c, penalizeIntercept: true,
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
	return linearModel{mean, scale, theta}, problem.minimize(theta)
}

// leastSquares minimizes
//
//	1/2 sum over rows of weight * (w.x + b - y)^2 + l2/2 |w|^2
//
// where x are the features shifted to mean 0, in their own unit, and the intercept b is not penalized. l2 is alpha of
// scikit-learn's Ridge. It is positive: otherwise features that depend on each other have no unique answer.
func leastSquares(l2 float64) func(training) (scorer, error) {
	return func(t training) (scorer, error) {
		mean, _ := t.standardization()
		scale := slices.Repeat([]float64{1}, t.x.Cols)
		problem := linearLoss{
			x: standardize(t.x, mean, scale), total: t.total, l2: l2,
			value: func(i int, z float64) float64 {
				return t.weight[i] * (z - t.label[i]) * (z - t.label[i]) / 2
			},
			derivatives: func(i int, z float64) (first, second float64) {
				return t.weight[i] * (z - t.label[i]), t.weight[i]
			},
		}
		theta := make([]float64, t.x.Cols+1)
		return decisions(linearModel{mean, scale, theta}, problem.minimize(theta))
	}
}
