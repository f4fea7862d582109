package classify

import "math"

type linearModel struct {
	mean, scale []float64 // per feature
	weights     []float64 // per standardized feature
	intercept   float64
}

// set takes over theta, the weights and then the intercept.
func (l *linearModel) set(mean, scale, theta []float64) {
	l.mean, l.scale = mean, scale
	l.weights, l.intercept = theta[:len(mean)], theta[len(mean)]
}

// decisions gives the function's value per row.
func (l *linearModel) decisions(x Matrix) ([]float64, error) {
	if err := checkScoring(len(l.weights), x); err != nil {
		return nil, err
	}
	scores := make([]float64, x.Rows)
	for i := range scores {
		z := l.intercept
		for j, v := range x.Row(i) {
			z += l.weights[j] * (v - l.mean[j]) / l.scale[j]
		}
		scores[i] = z
	}
	return scores, nil
}

// Coefficients gives the weights per feature in the features' own scale, and
// the intercept that belongs to them; nil before Fit.
func (l *linearModel) Coefficients() (weights []float64, intercept float64) {
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

// Importances gives the absolute weights per standard deviation of the features.
func (l *linearModel) Importances() []float64 {
	if l.weights == nil {
		return nil
	}
	sizes := make([]float64, len(l.weights))
	for j, w := range l.weights {
		sizes[j] = math.Abs(w)
	}
	return sizes
}
