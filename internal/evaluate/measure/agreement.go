package measure

import (
	"cmp"
	"errors"
	"fmt"
	"math"
)

// ErrTooFew means that fewer than two things are to be ranked.
var ErrTooFew = errors.New("at least two are needed to compare their order")

// RankingAgreement is the share of ordered pairs of things that two lists of scores put in the same order: 1
// for the same ranking, 0 for the reverse, about 0.5 for unrelated rankings. For the figures that algorithms
// reach on real and on synthetic rows it is the synthetic ranking agreement (SRA; Jordon, Yoon, van der Schaar
// 2018, arXiv:1806.11345, used in the PATE-GAN paper, 2019)
//
//	1/(k(k-1)) sum over i and j != i of [(R_i - R_j)(S_i - S_j) > 0]
//
// and for importances of features the agreed ranking probability. A pair that is tied in both lists agrees,
// although the formula says no. A pair that is tied in only one list does not agree.
//
// It fails with ErrTooFew, and for lists of unequal length and NaN.
func RankingAgreement(a, b []float64) (float64, error) {
	if len(a) != len(b) {
		return 0, fmt.Errorf("ranking agreement: %d and %d scores: give both of each", len(a), len(b))
	}
	if len(a) < 2 {
		return 0, fmt.Errorf("ranking agreement: %d given: %w", len(a), ErrTooFew)
	}
	for i := range a {
		if math.IsNaN(a[i]) || math.IsNaN(b[i]) {
			return 0, fmt.Errorf("ranking agreement: score %d is not a number: leave it out", i+1)
		}
	}
	agreed, pairs := 0, 0
	for i := range a {
		for j := range i {
			pairs++
			if cmp.Compare(a[i], a[j]) == cmp.Compare(b[i], b[j]) {
				agreed++
			}
		}
	}
	return float64(agreed) / float64(pairs), nil
}
