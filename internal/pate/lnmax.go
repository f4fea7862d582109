package pate

import (
	"math"

	"github.com/conclave-dp/conclave/internal/privacy"
)

// lnmaxLogQ returns the natural logarithm of an upper bound on the probability that LNMax with Laplace noise of
// scale 1/lambda per bin answers with another class than the one with most votes (Papernot et al. 2017, Lemma 4):
//
//	q = sum over the other classes j of (2 + lambda gap_j) / (4 exp(lambda gap_j)),
//
// at most 1 - 1/m for m classes. Lambda is an inverse number of votes.
//
// It also holds for the discrete Laplace noise of package gnmax with ties decided at random: the leading bin loses
// to a bin that is gap votes behind with probability e^(-lambda gap) (1 + gap tanh(lambda/2)) / 2, and tanh x <=
// x.
func lnmaxLogQ(votes []int64, lambda float64) float64 {
	return unionBound(votes, func(gap float64) float64 { return logLaplaceUpset(lambda * gap) })
}

// logLaplaceUpset is log((2+x) / (4 e^x)): the log probability that the difference of two Laplace noises of scale
// 1 exceeds x >= 0.
func logLaplaceUpset(x float64) float64 {
	if math.IsInf(x, 1) {
		return math.Inf(-1) // where Inf - Inf is not a number
	}
	return math.Log1p(x/2) - math.Ln2 - x
}

// lnmaxIndependent is the divergence of one LNMax query for all votes.
func lnmaxIndependent(lambda, alpha float64) (float64, error) {
	return privacy.Event{Kind: privacy.LNMax, Lambda: lambda, Count: 1}.RDP(alpha)
}

// pureLikelyRDP returns a bound on the Rényi divergence of order
// alpha, in nats, of an (epsilon, 0)-DP mechanism that misses its likely outcome
// with probability at most e^logQ: the smallest of epsilon, alpha epsilon²/2
// (Bun and Steinke 2016, Proposition 1.4) and, where q <= 1/(1 + e^epsilon), the
// bound of Papernot et al. 2017, Theorem 3,
//
//	log((1-q) ((1-q)/(1 - e^epsilon q))^(alpha-1) + q e^(epsilon (alpha-1))) / (alpha-1).
//
// Why the last one holds: an unlikely outcome gains at most e^epsilon; together they have at most e^epsilon q
// under the neighbour, so the likely one has at least 1 - e^epsilon q there. The expression is convex in q on [0,
// e^-epsilon) (x^a/y^(a-1) is convex and both x = 1-q and y = 1 - e^epsilon q are affine) with a derivative >= 0
// at q = 0. It therefore increases with q, and an upper bound on q may replace it. For q above 1/(1 + e^epsilon)
// it exceeds epsilon.
func pureLikelyRDP(logQ, epsilon, alpha float64) float64 {
	best := min(alpha*epsilon*epsilon/2, epsilon)
	if logQ <= -epsilon-math.Log1p(math.Exp(-epsilon)) {
		if dependent := logLikelyMoment(logQ, epsilon, alpha-1) / (alpha - 1); dependent < best {
			best = max(0, dependent)
		}
	}
	return best
}

// logLikelyMoment is the logarithm in Theorem 3 of Papernot et al. 2017 for the moment l > 0; it needs q e^epsilon
// < 1. A log q that overflowed proves nothing, since q e^epsilon may be anything.
func logLikelyMoment(logQ, epsilon, l float64) float64 {
	if math.IsInf(logQ, -1) {
		return math.Inf(1)
	}
	log1q := logOneLess(logQ)
	return logOfSum(log1q+l*(log1q-logOneLess(logQ+epsilon)), logQ+l*epsilon)
}
