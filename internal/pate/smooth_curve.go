package pate

import (
	"math"

	"github.com/conclave-dp/conclave/internal/normal"
	"github.com/conclave-dp/conclave/internal/privacy"
)

// gnmaxCurve is the data-dependent RDP of one GNMax query as a function of log q
// at one order, in the form of which Papernot et al. 2018 bound the sensitivity
// (section B.3): Theorem 6 below q0, order/sigma² from q0 on.
type gnmaxCurve struct {
	sigma, order float64
	classes      int
	// logQ0 is where the data-independent bound takes over, logQ1 the lowest
	// that a neighbour of logQ0 can have.
	logQ0, logQ1 float64
	// plateau is the local sensitivity between q1 and q0, the largest there is.
	plateau float64
}

func newGNMaxCurve(sigma, order float64, classes int) (*gnmaxCurve, error) {
	c := &gnmaxCurve{sigma: sigma, order: order, classes: classes}
	if err := c.findQ0(); err != nil {
		return nil, err
	}
	c.logQ1 = c.below(c.logQ0)
	// The worst neighbour of q1 is q0 itself; the other way is larger only
	// where condition C6 fails.
	at := c.value(c.logQ1)
	c.plateau = max(c.independent()-at, at-c.value(c.below(c.logQ1)))
	if !(c.logQ1 < c.logQ0) || !(c.plateau > 0) || !finite(c.plateau) {
		return nil, c.rangeError()
	}
	return c, nil
}

// findQ0 looks for the largest q below which Theorem 6 applies and gives the
// smaller figure. The conditions of the theorem hold from
//
//	log q <= -max((1 + 1/sigma)², ((order-1)/sigma)², 1/sigma²)
//
// on down (Papernot et al. 2018, section B.3), which is checked all the same.
func (c *gnmaxCurve) findQ0() error {
	smaller := func(logQ float64) bool {
		return c.proven(logQ) && newLikelyOutcome(logQ, c.sigma).theorem(c.order) < c.independent()
	}
	hi := -max(square(1+1/c.sigma), square((c.order-1)/c.sigma), square(1/c.sigma))
	if smaller(hi) {
		c.logQ0 = hi
		return nil
	}
	lo := 2 * hi
	for range 100 {
		if smaller(lo) {
			// The curve grows with q, so there is one crossing.
			for middle := lo + (hi-lo)/2; lo < middle && middle < hi; middle = lo + (hi-lo)/2 {
				if smaller(middle) {
					lo = middle
				} else {
					hi = middle
				}
			}
			c.logQ0 = lo
			return nil
		}
		lo *= 1.5
	}
	return c.rangeError()
}

// proven says whether Theorem 6 applies; its largest order is met exactly at the
// upper end of the search, up to rounding.
func (c *gnmaxCurve) proven(logQ float64) bool {
	l := newLikelyOutcome(logQ, c.sigma)
	return l.applies && c.order <= l.mu1*(1+1e-12)
}

func (c *gnmaxCurve) rangeError() error {
	return privacy.FieldErrorf("sigma",
		"is %v, where no vote can bring the data-dependent bound of order %v below the other by a number that "+
			"float64 holds; use the data-independent bound", c.sigma, c.order)
}

// independent is Proposition 8.
func (c *gnmaxCurve) independent() float64 { return c.order * square(1/c.sigma) }

// value is the curve.
func (c *gnmaxCurve) value(logQ float64) float64 {
	if logQ >= c.logQ0 {
		return c.independent()
	}
	return max(0, newLikelyOutcome(logQ, c.sigma).theorem(c.order))
}

// above and below are the largest and the smallest log q that a neighbour can
// have: the B_U and B_L of Papernot et al. 2018, section B.3,
//
//	B(q) = (m-1) P[N(0,1) > z -+ sqrt(2)/sigma] with (m-1) P[N(0,1) > z] = q.
//
// Why they hold: one moved vote changes a gap by at most 2, which is sqrt(2)
// standard deviations of the difference of two noises. The map from a tail to
// the tail that begins so much earlier is concave, the one to a later tail is
// convex, so by Jensen's inequality all gaps equal is the worst case.
func (c *gnmaxCurve) above(logQ float64) float64 { return c.shift(logQ, -math.Sqrt2/c.sigma) }
func (c *gnmaxCurve) below(logQ float64) float64 { return c.shift(logQ, math.Sqrt2/c.sigma) }

func (c *gnmaxCurve) shift(logQ, by float64) float64 {
	others := math.Log(float64(c.classes - 1))
	z := normal.TailInverse(min(logQ-others, -math.Ln2))
	return min(0, others+logTailAt(z+by))
}

// local bounds the change of the curve by one moved vote (Algorithm 3): it grows
// with q, so the extremes are the worst neighbours. Between q1 and q0 it is the
// plateau, since a neighbour there can reach order/sigma² but not pass it.
func (c *gnmaxCurve) local(logQ float64) float64 {
	if logQ >= c.logQ1 && logQ <= c.logQ0 {
		return c.plateau
	}
	at := c.value(logQ)
	return max(c.value(c.above(logQ))-at, at-c.value(c.below(logQ)))
}
