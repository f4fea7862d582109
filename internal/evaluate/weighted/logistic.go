package weighted

import (
	"errors"
	"math"

	"gonum.org/v1/gonum/mat"
)

// ErrSeparated means that a combination of columns separates true from false rows without error, so that
// coefficients grow without bound: use a prior.
var ErrSeparated = errors.New("the rows are perfectly separable, so no coefficients are best")

const (
	logisticSteps    = 100
	logisticHalvings = 50
	// closeEnough ends the fit: a step changes no row's log odds by more. Newton's method squares the remaining
	// error. If the rows can be separated, each step changes them by about 1 and the fit does not converge.
	closeEnough = 1e-7
)

// logisticLoss is the weighted negative log-likelihood and, with a prior, half of (beta - mean)' precision
// (beta - mean).
type logisticLoss struct {
	x         [][]float64
	y         []bool
	weight    []float64
	mean      []float64
	precision *mat.SymDense // nil without a prior
}

func (p *logisticLoss) value(beta []float64) float64 {
	loss := 0.0
	for i, row := range p.x {
		if p.weight[i] == 0 {
			continue
		}
		z := dot(row, beta)
		if p.y[i] {
			z = -z
		}
		loss += p.weight[i] * (math.Max(z, 0) + math.Log1p(math.Exp(-math.Abs(z))))
	}
	if p.precision != nil {
		loss += quadratic(p.precision, difference(beta, p.mean)) / 2
	}
	return loss
}

// scores are the negative derivatives of each row's loss with respect to its log odds, times its weight.
func (p *logisticLoss) scores(beta []float64) []float64 {
	out := make([]float64, len(p.x))
	for i, row := range p.x {
		truth := 0.0
		if p.y[i] {
			truth = 1
		}
		out[i] = p.weight[i] * (truth - sigmoid(dot(row, beta)))
	}
	return out
}

// curvature is the matrix of second derivatives.
func (p *logisticLoss) curvature(beta []float64) *mat.SymDense {
	v := make([]float64, len(p.x))
	for i, row := range p.x {
		q := sigmoid(dot(row, beta))
		v[i] = p.weight[i] * q * (1 - q)
	}
	h := gram(p.x, v)
	if p.precision != nil {
		h.AddSym(h, p.precision)
	}
	return h
}

// minimize runs Newton's method with step halving, and returns the curvature at the minimum.
func (p *logisticLoss) minimize(beta []float64) ([]float64, *factored, error) {
	value := p.value(beta)
	for range logisticSteps {
		h, err := factorize(p.curvature(beta))
		if err != nil {
			return nil, nil, ErrSeparated // the columns themselves are independent
		}
		slope := moment(p.x, p.scores(beta))
		if p.precision != nil {
			var pull mat.VecDense
			pull.MulVec(p.precision, mat.NewVecDense(len(beta), difference(p.mean, beta)))
			for j := range slope {
				slope[j] += pull.AtVec(j)
			}
		}
		step := h.solve(slope)
		if p.moves(step) <= closeEnough {
			for j := range beta {
				beta[j] += step[j]
			}
			last, err := factorize(p.curvature(beta))
			if err != nil {
				return nil, nil, ErrSeparated
			}
			return beta, last, nil
		}
		if value = p.towards(beta, step, value); math.IsNaN(value) {
			return nil, nil, ErrSeparated
		}
	}
	return nil, nil, ErrSeparated
}

// moves is the largest change by a step of any row's log odds, or of the parameters in units of the prior.
func (p *logisticLoss) moves(step []float64) float64 {
	most := 0.0
	for i, row := range p.x {
		if p.weight[i] > 0 {
			most = math.Max(most, math.Abs(dot(row, step)))
		}
	}
	if p.precision != nil {
		most = math.Max(most, math.Sqrt(quadratic(p.precision, step)))
	}
	return most
}

// towards moves beta along the step, halved until the loss does not rise; NaN if no step is short enough.
func (p *logisticLoss) towards(beta, step []float64, value float64) float64 {
	trial := make([]float64, len(beta))
	size := 1.0
	for range logisticHalvings {
		for j := range trial {
			trial[j] = beta[j] + size*step[j]
		}
		// Close to the minimum rounding may raise the loss by its last digits.
		if next := p.value(trial); next <= value+1e-14*math.Abs(value) {
			copy(beta, trial)
			return next
		}
		size /= 2
	}
	return math.NaN()
}

func difference(a, b []float64) []float64 {
	out := make([]float64, len(a))
	for i := range a {
		out[i] = a[i] - b[i]
	}
	return out
}

// sigmoid is the logistic function; it does not overflow at either end.
func sigmoid(z float64) float64 {
	if z >= 0 {
		return 1 / (1 + math.Exp(-z))
	}
	e := math.Exp(z)
	return e / (1 + e)
}
