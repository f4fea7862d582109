package classify

import (
	"errors"
	"fmt"
	"math"
)

// scorer returns one number per row of a checked matrix.
type scorer func(x Matrix) []float64

// model is the common part of classifiers and regressors. It is not safe for concurrent use.
type model struct {
	name    string
	columns int // 0 before Fit
	score   scorer
}

// Name is the model's name for users.
func (m *model) Name() string { return m.name }

// fit forgets earlier training, and learns.
func (m *model) fit(prepare func() (training, error), learn func(training) (scorer, error)) error {
	m.columns = 0
	t, err := prepare()
	if err == nil {
		m.score, err = learn(t)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", m.name, err)
	}
	m.columns = t.x.Cols
	return nil
}

// scores refuses rows that the model cannot score.
func (m *model) scores(x Matrix) ([]float64, error) {
	err := x.check()
	switch {
	case m.columns == 0:
		err = errors.New("the model has not been fitted: call Fit first")
	case err == nil && x.Cols != m.columns:
		err = fmt.Errorf("fitted to %d columns, asked about %d", m.columns, x.Cols)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.name, err)
	}
	return m.score(x), nil
}

// byRow scores rows one by one.
func byRow(score func(row []float64) float64) scorer {
	return func(x Matrix) []float64 {
		scores := make([]float64, x.Rows)
		for i := range scores {
			scores[i] = score(x.Row(i))
		}
		return scores
	}
}

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
