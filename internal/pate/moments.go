package pate

import (
	"maps"
	"math"
	"slices"

	"github.com/conclave-dp/conclave/internal/privacy"
)

// PATEGANMomentOrders is the number of moments that the PATE-GAN paper's
// accountant follows: l = 1 ... 100.
const PATEGANMomentOrders = 100

// PATEGANMoments returns the epsilon that the moments accountant of PATE-GAN
// (Jordon, Yoon, van der Schaar 2019, Algorithm 1 and Theorem 5) finds at delta
// for LNMax queries with Laplace noise of scale 1/lambda per bin, one histogram
// [n0, n1] per query. With
//
//	q = (2 + lambda |n0-n1|) / (4 exp(lambda |n0-n1|))
//
// each query adds to the l-th moment, l = 1 ... [PATEGANMomentOrders],
//
//	alpha(l) = min(2 lambda² l (l+1),
//	               log((1-q) ((1-q)/(1 - e^(2 lambda) q))^l + q e^(2 lambda l)))
//
// the second only if q e^(2 lambda) < 1; epsilon is the smallest (alpha(l) + log(1/delta)) / l.
//
// Why it holds: moments of independent noise add up and Markov's inequality turns them into a tail (Abadi et al.
// 2016, Theorem 2). The first bound is that of every (2 lambda, 0)-DP release (Bun and Steinke 2016, Proposition
// 1.4), the second is explained at pureLikelyRDP, whose proof only needs q e^(2 lambda) < 1 for the bound to
// increase with q.
//
// What it does not promise: the figure depends on the votes, so it is private
// itself, and it bounds the loss of the dataset that cast them against its
// neighbours, not the reverse. The paper writes it for two classes, real and
// fake; a histogram with another number of classes is an error, as are an empty
// list, negative counts and numbers that float64 cannot hold. All are
// [*privacy.FieldError].
func PATEGANMoments(votes [][]int64, lambda, delta float64) (float64, error) {
	if err := privacy.CheckDelta(delta); err != nil {
		return 0, err
	}
	if err := checkPositive("lambda", lambda); err != nil {
		return 0, err
	}
	if len(votes) == 0 {
		return 0, privacy.FieldErrorf("votes", "has no histogram; give one per query")
	}
	gaps := make(map[int64]int64)
	for _, v := range votes {
		if err := checkVotes(v); err != nil {
			return 0, err
		}
		if len(v) != 2 {
			return 0, privacy.FieldErrorf("votes",
				"has a histogram of %d classes; the moments accountant of PATE-GAN is for 2", len(v))
		}
		gaps[max(v[0], v[1])-min(v[0], v[1])]++
	}
	return checkFigure("lambda", pateganEpsilon(gaps, lambda, delta))
}

// pateganEpsilon takes the number of occurrences of each gap between the two classes.
func pateganEpsilon(gaps map[int64]int64, lambda, delta float64) float64 {
	var moments [PATEGANMomentOrders]float64
	for _, gap := range slices.Sorted(maps.Keys(gaps)) {
		logQ := logLaplaceUpset(lambda * float64(gap))
		for i := range moments {
			moments[i] += float64(gaps[gap]) * pateganMoment(logQ, lambda, float64(i+1))
		}
	}
	best := math.Inf(1)
	for i, alpha := range moments {
		best = min(best, (alpha-math.Log(delta))/float64(i+1)) // NaN stays NaN
	}
	return best
}

// pateganMoment is alpha(l) of one query.
func pateganMoment(logQ, lambda, l float64) float64 {
	best := 2 * lambda * lambda * l * (l + 1)
	if logQ+2*lambda < 0 {
		if dependent := logLikelyMoment(logQ, 2*lambda, l); dependent < best { // false for NaN
			best = max(0, dependent)
		}
	}
	return best
}
