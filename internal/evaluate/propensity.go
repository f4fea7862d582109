package evaluate

import (
	"fmt"
	"math"

	"github.com/conclave-dp/conclave/internal/evaluate/measure"
	"github.com/conclave-dp/conclave/internal/evaluate/weighted"
	"github.com/conclave-dp/conclave/partition"
)

// mostFeatures bounds the work of a linear model, which grows with their cube.
const mostFeatures = 600

// ComparePropensity fits a logistic regression with the main effects of all data columns that tells synthetic
// from real rows. It returns the mean squared error of its propensity scores, and the ratio of that to its
// expectation for a correct synthesis, (k-1)(1-c)^2 c/N (Snoke et al. 2018; see measure.ExpectedPMSE). k counts
// the independent parameters, N the rows, and c is the share of synthetic ones. The regression has only a tiny
// penalty, 1e-8 of a feature's spread.
//
// That expectation assumes that the synthesis was fitted to the real rows. For rows of the same distribution
// that are independent of the real ones, the ratio is about 1/(1-c), 2 for equally many; 0 means that the
// tables have the same means.
//
// weight are the weights of the synthetic rows, nil for 1 each. They are scaled so that their sum is the
// effective number of rows, (sum w)^2 / (sum w^2) (Kish 1965), so the expectation holds for them as well.
//
// The result is nil, with a note, for more than 600 features and if nothing varies. It fails for tables without
// rows or with different columns, and with ErrWeights. NOT PRIVATE.
func ComparePropensity(real, synthetic *partition.Table, weight []float64) (*Propensity, []string, error) {
	weight, err := checkTables(real, synthetic, weight)
	if err != nil {
		return nil, nil, fmt.Errorf("propensity: %w", err)
	}
	d := newDesign(real.Schema(), dataColumns(real.Schema()), nil)
	if d.width > mostFeatures {
		return nil, []string{fmt.Sprintf("propensity: %d features are more than the %d that are compared", d.width,
			mostFeatures)}, nil
	}
	rows := d.rows(real)
	rows.append(d.rows(synthetic))
	made := make([]bool, rows.len())
	w := make([]float64, rows.len())
	worth := weighted.EffectiveSize(weight)
	total := measure.Sum(weight)
	for i := range w {
		if w[i] = 1; i >= real.Len() {
			made[i], w[i] = true, weight[i-real.Len()]*(worth/total)
		}
	}
	n := float64(real.Len()) + worth
	c := worth / n
	scores, k, converged := logistic(rows, made, w, c)
	if k < 2 {
		return nil, []string{"propensity: no column has two different values"}, nil
	}
	pmse, err := measure.PMSE(made, scores, w)
	if err != nil {
		return nil, nil, fmt.Errorf("propensity: %w", err)
	}
	expected, err := measure.ExpectedPMSE(k, c, n)
	if err != nil {
		return nil, nil, fmt.Errorf("propensity: %w", err)
	}
	var notes []string
	if !converged {
		notes = append(notes, "propensity: the logistic regression did not reach its minimum")
	}
	return &Propensity{PMSE: pmse, Ratio: pmse / expected, RatioOfEqual: 1 / (1 - c)}, notes, nil
}

const (
	logisticSteps     = 100
	logisticHalvings  = 40
	logisticTolerance = 1e-8 // for the expected gain of a step in log-likelihood
)

// logistic fits propensity scores by Newton's method with step halving. It returns them with the number of
// independent features, including the intercept, and whether the minimum was reached. share is the weighted
// share of synthetic rows.
func logistic(rows *sparse, made []bool, weight []float64, share float64) (scores []float64, rank int, converged bool) {
	spread := rows.spread(weight)
	a := rows.gram(weight)
	floor := make([]float64, rows.width)
	penalty := make([]float64, rows.width)
	for j := range floor {
		if floor[j] = 1e-9 * spread[j]; j > 0 && spread[j] == 0 {
			floor[j] = math.Inf(1)
		}
		// The penalty is in units of the curvature that indistinguishable rows have.
		penalty[j] = ridge * share * (1 - share) * spread[j]
	}
	rank = cholesky(a, floor)

	y := make([]float64, rows.len())
	for i := range y {
		if made[i] {
			y[i] = 1
		}
	}
	beta := make([]float64, rows.width)
	beta[0] = math.Log(share / (1 - share))
	scores = make([]float64, rows.len())
	curvature, residual := make([]float64, rows.len()), make([]float64, rows.len())
	value := lossOf(rows, y, weight, penalty, beta)
	for range logisticSteps {
		for i := range scores {
			scores[i] = 1 / (1 + math.Exp(-rows.dot(i, beta)))
			curvature[i] = weight[i] * scores[i] * (1 - scores[i])
			residual[i] = y[i] - scores[i]
		}
		if converged {
			break
		}
		gradient := rows.moment(weight, residual)
		for j := range gradient {
			gradient[j] -= penalty[j] * beta[j]
		}
		h := rows.gram(curvature)
		cholesky(h, penalized(h, penalty))
		step := solve(h, gradient)
		gain := 0.0
		for j := range step {
			gain += step[j] * gradient[j] / 2
		}
		// Newton's last step squares the remaining error, so it is still taken.
		converged = gain <= logisticTolerance
		next, moved := towards(rows, y, weight, penalty, beta, step, value)
		converged = converged || !moved // floating point has no smaller value
		value = next
	}
	return scores, rank, converged
}

// towards moves beta along the step, halving it until the loss falls.
func towards(rows *sparse, y, weight, penalty, beta, step []float64, value float64) (float64, bool) {
	trial := make([]float64, len(beta))
	size := 1.0
	for range logisticHalvings {
		for j := range trial {
			trial[j] = beta[j] + size*step[j]
		}
		if next := lossOf(rows, y, weight, penalty, trial); next < value {
			copy(beta, trial)
			return next, true
		}
		size /= 2
	}
	return value, false
}

// lossOf is the negative log-likelihood and half the penalty.
func lossOf(rows *sparse, y, weight, penalty, beta []float64) float64 {
	loss := 0.0
	for i := range y {
		z := rows.dot(i, beta)
		if y[i] == 1 {
			z = -z
		}
		loss += weight[i] * (max(z, 0) + math.Log1p(math.Exp(-math.Abs(z))))
	}
	for j, b := range beta {
		loss += penalty[j] * b * b / 2
	}
	return loss
}
