package pate

import (
	"fmt"
	"math"
	"slices"

	"github.com/conclave-dp/conclave/internal/privacy"
)

// maxSmoothTeachers bounds the walk over distances.
const maxSmoothTeachers = 1 << 20

// GNMaxLocalSensitivities returns, for each distance d = 0 ... n-1, an upper
// bound on how much the data-dependent RDP of one GNMax query can change with
// one more moved vote, in nats, over all histograms that lie at most d moved
// votes from this one; n is the number of votes, at most 2^20. Sigma is the noise
// per bin in votes, order the Rényi order (Papernot et al. 2018, section B.3,
// Algorithms 3 and 4).
//
// The curve whose sensitivity this is takes Theorem 6 for q below a q0 that
// depends on sigma and order only, and the data-independent order/sigma² above.
// It may lie above [GNMaxRDP], never below.
//
// Errors: a [*privacy.FieldError] for what no histogram, noise or order is, for more
// votes than the limit, and where the conditions C5 and C6 of the paper, on
// which the proof rests, do not hold for these parameters. They are checked on a
// grid of 400 values of log q.
//
// The result depends on the votes, so it is as private as they are.
func GNMaxLocalSensitivities(votes []int64, sigma, order float64) ([]float64, error) {
	c, total, err := checkedCurve(votes, sigma, order)
	if err != nil {
		return nil, err
	}
	return c.byDistance(votes, total), nil
}

func (c *gnmaxCurve) byDistance(votes []int64, teachers int64) []float64 {
	steps, _ := c.sensitivities(votes)
	for int64(len(steps)) < teachers {
		steps = append(steps, c.plateau)
	}
	return steps[:teachers]
}

// GNMaxSmoothSensitivity returns the beta-smooth sensitivity of that curve at
// these votes, in nats: the largest e^(-beta d) times the local sensitivity at
// distance d (Nissim, Raskhodnikova, Smith 2007, Definition 2.2; Papernot et al.
// 2018, section B.3). Neighbouring histograms have smooth sensitivities within a
// factor e^beta of each other, which is why noise in proportion to it gives
// little away. Beta is above zero. Errors as in [GNMaxLocalSensitivities].
//
// The result depends on the votes, so it is as private as they are.
func GNMaxSmoothSensitivity(votes []int64, sigma, order, beta float64) (float64, error) {
	if err := checkPositive("beta", beta); err != nil {
		return 0, err
	}
	c, _, err := checkedCurve(votes, sigma, order)
	if err != nil {
		return 0, err
	}
	return checkFigure("beta", c.smooth(votes, beta))
}

func checkedCurve(votes []int64, sigma, order float64) (*gnmaxCurve, int64, error) {
	total, err := checkVotes(votes)
	if err != nil {
		return nil, 0, err
	}
	if total > maxSmoothTeachers {
		return nil, 0, privacy.FieldErrorf("votes",
			"has more than %d votes; smooth sensitivity is not worked out for that many", maxSmoothTeachers)
	}
	if err := checkPositive("sigma", sigma); err != nil {
		return nil, 0, err
	}
	if err := checkOrder("order", order); err != nil {
		return nil, 0, err
	}
	c, err := newGNMaxCurve(sigma, order, len(votes))
	if err != nil {
		return nil, 0, err
	}
	if err := c.check(total); err != nil {
		return nil, 0, err
	}
	return c, total, nil
}

// smooth stops at the plateau: what lies further away is discounted more.
func (c *gnmaxCurve) smooth(votes []int64, beta float64) float64 {
	steps, plateauAt := c.sensitivities(votes)
	best := c.plateau * math.Exp(-beta*float64(plateauAt))
	for d, s := range steps {
		best = max(best, s*math.Exp(-beta*float64(d)))
	}
	return best
}

// sensitivities walks away from the votes, one moved vote at a time, to the
// plateau of the local sensitivity, and returns the bounds on the way and the
// first distance at which the plateau is reached, or cannot be ruled out.
//
// Why this finds the largest within each distance (Algorithm 4 and Proposition
// 17): the local sensitivity grows with q up to the plateau between q1 and q0
// and falls after it. Normal tails are convex, so q grows fastest when a vote
// moves from the first class to the second, and falls fastest when one moves
// from the second to the first. One step from below q1 does not pass q0, and one
// from above q0 does not pass q1, because q1 = B_L(q0): no histogram on the
// plateau is jumped over.
func (c *gnmaxCurve) sensitivities(votes []int64) (steps []float64, plateauAt int) {
	sorted := slices.Clone(votes)
	slices.SortFunc(sorted, func(a, b int64) int { return int(b - a) }) // both below 2^21
	logQ := gnmaxLogQ(sorted, c.sigma)
	towards := 1 // above q0 votes move from the second class to the first
	if logQ < c.logQ1 {
		towards = -1
	}
	for d := 0; ; d++ {
		if logQ >= c.logQ1 && towards < 0 || logQ <= c.logQ0 && towards > 0 {
			return steps, d
		}
		steps = append(steps, c.local(logQ))
		if towards > 0 && sorted[1] == 0 {
			return steps, d + 1 // all agree; the plateau is above any answer
		}
		sorted[0] += int64(towards)
		sorted[1] -= int64(towards)
		for i := 1; i+1 < len(sorted) && sorted[i] < sorted[i+1]; i++ {
			sorted[i], sorted[i+1] = sorted[i+1], sorted[i]
		}
		logQ = gnmaxLogQ(sorted, c.sigma)
	}
}

// check verifies on a grid that Theorem 6 applies, that the curve grows with q
// (condition C5) and that its step to the worst neighbour grows with q up to q1
// (condition C6; Papernot et al. 2018, section B.4.2), for all q that histograms
// of so many votes can have. Where no histogram gets below q0 the curve is flat.
func (c *gnmaxCurve) check(teachers int64) error {
	const points = 400
	unanimous := make([]int64, c.classes)
	unanimous[0] = teachers
	// One step further down, for the neighbour's q.
	lowest := c.below(gnmaxLogQ(unanimous, c.sigma))
	if !(lowest < c.logQ0) {
		return nil
	}
	if math.IsInf(lowest, -1) {
		return privacy.FieldErrorf("sigma", "is %v, too small for smooth sensitivity with so many teachers", c.sigma)
	}
	value, step := math.Inf(1), math.Inf(1)
	for i := range points {
		// Both are negative; equal ratios put most points next to q0.
		logQ := c.logQ0 * math.Pow(lowest/c.logQ0, float64(i)/(points-1))
		if !c.proven(logQ) || math.IsNaN(c.value(logQ)) || c.value(logQ) > value*(1+1e-9) {
			return c.conditionError("C5")
		}
		value = c.value(logQ)
		if logQ > c.logQ1 {
			continue
		}
		next := c.value(c.above(logQ)) - value
		if math.IsNaN(next) || next > step*(1+1e-9)+1e-14*value {
			return c.conditionError("C6")
		}
		step = next
	}
	return nil
}

func (c *gnmaxCurve) conditionError(name string) error {
	return fmt.Errorf("smooth sensitivity at sigma %v: %w", c.sigma,
		privacy.FieldErrorf("order", "is %v, where condition %s of the proof fails; take another order or more noise",
			c.order, name))
}
