package pate

import (
	"math"
)

// gnmaxLogQ returns the natural logarithm of an upper bound on the probability that GNMax with noise N(0, sigma²)
// per bin answers with another class than the one with most votes: the union bound of Papernot et al. 2018,
// Proposition 7,
//
//	q = sum over the other classes j of 1/2 erfc((n_max - n_j) / (2 sigma)),
//
// at most 1 - 1/m for m classes. The difference of two noises is N(0, 2 sigma²). The bound is for continuous
// noise; with the integer noise of package gnmax another class wins slightly more often.
func gnmaxLogQ(votes []int64, sigma float64) float64 {
	return unionBound(votes, func(gap float64) float64 { return logTailAt(gap / sigma / math.Sqrt2) })
}

// likelyOutcome bounds the divergence of a mechanism that is (mu, mu/sigma²)-RDP at every order mu and has one
// outcome with probability at least 1 - q, such as GNMax.
//
// Theorem 6 (Papernot et al. 2018): for orders mu1 >= alpha and mu2 > 1 with
// RDP eps1 and eps2, and q <= e^((mu2-1) eps2) / (mu1/(mu1-1) mu2/(mu2-1))^mu2,
//
//	D_alpha(M(D) || M(D')) <= 1/(alpha-1) log((1-q) A^(alpha-1) + q B^(alpha-1))
//	A = (1-q) / (1 - (q e^eps2)^((mu2-1)/mu2)),  B = e^eps1 / q^(1/(mu1-1)).
//
// Why it holds: by Hölder's inequality a neighbour's probability of an unlikely outcome is at most (q
// e^eps2)^((mu2-1)/mu2), which keeps the ratio on the likely outcome below A; the ratios on all other outcomes are
// bounded in the mean by B. The condition makes the bound increase with q, so an upper bound on q may replace it.
type likelyOutcome struct {
	invVariance float64 // 1/sigma²
	applies     bool    // the conditions that do not depend on alpha
	logQ        float64
	mu1         float64
	log1q       float64 // log(1-q)
	logA, logB  float64
}

// newLikelyOutcome takes the orders that are best by Proposition 10: mu2 = sigma sqrt(log 1/q), mu1 = mu2 + 1.
func newLikelyOutcome(logQ, sigma float64) likelyOutcome {
	l := likelyOutcome{invVariance: square(1 / sigma), logQ: logQ}
	mu2 := sigma * math.Sqrt(-logQ)
	l.mu1 = mu2 + 1
	eps1, eps2 := l.mu1/sigma/sigma, mu2/sigma/sigma
	// The last condition keeps A positive. NaN fails all conditions, and so does a log q below all float64: a
	// neighbour's q may be larger.
	l.applies = mu2 > 1 && finite(mu2) &&
		logQ <= (mu2-1)*eps2-mu2*(math.Log1p(1/(l.mu1-1))+math.Log1p(1/(mu2-1))) &&
		logQ+eps2 < 0
	l.log1q = logOneLess(logQ)
	l.logA = l.log1q - logOneLess((logQ+eps2)*(1-1/mu2))
	l.logB = eps1 - logQ/(l.mu1-1)
	return l
}

// independent is Proposition 8 of Papernot et al. 2018, alpha/sigma².
func (l likelyOutcome) independent(alpha float64) float64 { return alpha * l.invVariance }

// theorem is the right side of Theorem 6. It holds if applies is true and alpha is at most mu1.
func (l likelyOutcome) theorem(alpha float64) float64 {
	return logOfSum(l.log1q+(alpha-1)*l.logA, l.logQ+(alpha-1)*l.logB) / (alpha - 1)
}

// rdp is the smaller of both bounds. It is never below zero, not even by rounding.
//
// What it promises: D_alpha(M(D) || M(D')) is at most this for the dataset D with these votes and every neighbour D'.
// It does not bound the other direction, M(D') from M(D), which has the bound for the votes of D'. It does not cover a
// mechanism that also releases noisy counts.
func (l likelyOutcome) rdp(alpha float64) float64 {
	best := l.independent(alpha)
	if l.applies && alpha < l.mu1 {
		if dependent := l.theorem(alpha); dependent < best { // false for NaN
			best = max(0, dependent)
		}
	}
	return best
}
