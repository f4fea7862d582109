package gnmax

import (
	"errors"
	"fmt"
)

// ErrScores matches, with errors.Is, the error for scores from which nothing can be selected. The message contains no
// score.
var ErrScores = errors.New("unusable scores")

// ExponentialMechanism selects one of several public candidates by their
// private scores: candidate r with probability proportional to
// exp(epsilon u(r)/(2 s)), where one privacy unit changes no score u by more
// than s, exactly.
//
// Why this is private: a candidate's weight changes by a factor of at most exp(epsilon/2), and so does the sum of
// all weights (McSherry and Talwar 2007, Theorem 6; Dwork and Roth 2014, Theorem 3.10). Weights here are relative
// to the largest score, which divides all of them by the same factor. In addition, the log probability ratios of
// all candidates between two neighbours lie within epsilon of each other (bounded range: Durfee and Rogers 2019),
// and package privacy composes selections by that. Variants with the same epsilon, such as permute-and-flip, do
// not have this property. Charge {kind: exponential, epsilon}.
//
// Time: each trial takes a uniform candidate and keeps it with the probability exp(-epsilon (max - u)/(2 s)). A
// candidate with the largest score is always kept, so n candidates need at most n trials on average: n/(sum of
// these probabilities). The number of trials depends on the scores, more visibly than the time of noise depends on
// the noise. If somebody could time the answer, send it at a time fixed in advance.
//
// An ExponentialMechanism is immutable and safe for concurrent use.
type ExponentialMechanism struct {
	scale Scale // 2 s/epsilon, rounded up: never more than epsilon
}

// NewExponential returns a selection that costs epsilon, for whole-numbered (or fixed-point) scores. One privacy unit
// changes each score by at most sensitivity, a public number above zero. 2 sensitivity/epsilon must not exceed 2^38.
func NewExponential(epsilon float64, sensitivity int64) (*ExponentialMechanism, error) {
	if sensitivity <= 0 || sensitivity > maxCount {
		return nil, parameterErrorf("exponential: sensitivity is %d; it must be what one privacy unit changes a "+
			"score by at most, from 1 to 2^61", sensitivity)
	}
	scale, err := scaleFor(2*uint64(sensitivity), epsilon)
	if err != nil {
		return nil, fmt.Errorf("exponential: %w", err)
	}
	return &ExponentialMechanism{scale: scale}, nil
}

// Select returns the index of the selected candidate. scores has one entry for each candidate, within 2^61 of zero;
// their number must not depend on private data.
func (m *ExponentialMechanism) Select(src *Source, scores []int64) (int, error) {
	if m.scale.num == 0 {
		return 0, errZeroParameter
	}
	if len(scores) == 0 {
		return 0, fmt.Errorf("%w: there are none", ErrScores)
	}
	for i, u := range scores {
		if u < -maxCount || u > maxCount {
			return 0, fmt.Errorf("%w: the score of candidate %d is too large", ErrScores, i)
		}
	}
	winner, err := src.draw(func(d *draws) int64 { return d.exponential(scores, m.scale) })
	return int(winner), err
}
