package privacy

import (
	"math"

	"github.com/conclave-dp/conclave/internal/normal"
)

// gdpDelta is the smallest delta such that every mu-GDP mechanism is
// (epsilon, delta)-DP:
//
//	delta = Phi(-epsilon/mu + mu/2) - e^epsilon Phi(-epsilon/mu - mu/2)
//
// (Balle and Wang 2018, Theorem 8; Dong, Roth, Su 2019, Corollary 2.13). With a = epsilon/mu - mu/2 and b = a +
// mu, e^epsilon phi(b) = phi(a), so that delta = phi(a) (M(a) - M(b)) with Mills' ratio M: no power of e
// overflows. The result is increased by what the subtraction may have lost.
func gdpDelta(epsilon, mu float64) float64 {
	const slack = 1e-14 // above the relative error of mills
	if mu == 0 {
		return 0
	}
	a := epsilon/mu - mu/2
	b := epsilon/mu + mu/2
	if a < 0 {
		return normal.Tail(a) - normal.Density(a)*normal.Mills(b) + slack
	}
	return normal.Density(a) * (normal.Mills(a)*(1+slack) - normal.Mills(b))
}

// gdpEpsilon is the smallest epsilon >= 0 such that every mu-GDP mechanism is
// (epsilon, delta)-DP, from above; infinite when mu is too large to tell.
//
// Delta is P[Y - E > epsilon] for the privacy loss Y ~ N(mu²/2, mu²) and an
// independent exponential E, since P[E < y] = 1 - e^-y. Both have log-concave
// densities, so log delta is concave in epsilon, and Newton steps that begin
// right of the solution stay right of it until rounding lets one pass; bisection
// does the rest.
func gdpEpsilon(mu, delta float64) float64 {
	if gdpDelta(0, mu) <= delta {
		return 0
	}
	// Y exceeds this with probability below delta, by the usual tail bound.
	epsilon := mu*mu/2 + mu*math.Sqrt(-2*math.Log(delta))
	for finite(epsilon) && gdpDelta(epsilon, mu) > delta { // only if rounding matters
		epsilon *= 2
	}
	if !finite(epsilon) {
		return math.Inf(1)
	}
	for range 100 {
		at := gdpDelta(epsilon, mu)
		// d delta/d epsilon = -e^epsilon Phi(-epsilon/mu - mu/2)
		slope := normal.Density(epsilon/mu-mu/2) * normal.Mills(epsilon/mu+mu/2)
		next := epsilon - at/slope*math.Log(delta/at)
		if !(next < epsilon) {
			break // also for NaN, if delta is too small for a float64
		}
		if next < 0 || gdpDelta(next, mu) > delta {
			_, epsilon = bisect(max(next, 0), epsilon, func(x float64) bool { return gdpDelta(x, mu) > delta })
			break
		}
		epsilon = next
	}
	return epsilon
}

// gdpMu is the largest mu such that every mu-GDP mechanism is
// (epsilon, delta)-DP, from below.
func gdpMu(epsilon, delta float64) float64 {
	hi := 1.0
	for gdpDelta(epsilon, hi) <= delta {
		hi *= 2
	}
	lo, _ := bisect(0, hi, func(mu float64) bool { return gdpDelta(epsilon, mu) <= delta })
	return lo
}

// bisect narrows [lo, hi] around the place where isLow turns from true to false, to the last bits. isLow holds at lo
// (or lo is a bound) and not at hi.
func bisect(lo, hi float64, isLow func(float64) bool) (float64, float64) {
	for range 200 {
		mid := lo + (hi-lo)/2
		if mid <= lo || mid >= hi {
			break
		}
		if isLow(mid) {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo, hi
}
