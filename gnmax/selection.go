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
// Why this is private: a candidate's weight changes by a factor of at most
// exp(epsilon/2), and so does the sum of all weights (McSherry and Talwar 2007,
// Theorem 6; Dwork and Roth 2014, Theorem 3.10). Weights are relative to the
// largest score here, which takes the same factor from all of them. What is
// more, the logarithms of all candidates' probability ratios between two
// neighbours lie within epsilon of each other (bounded range: Durfee and Rogers
// 2019); package privacy composes selections by that. It needs the weights as
// they are: a variant with the same epsilon, such as permute-and-flip, does not
// have it. Charge {kind: exponential, epsilon}.
//
// Time: each trial takes a uniform candidate and keeps it with the probability
// exp(-epsilon (max - u)/(2 s)). A candidate of the largest score is always
// kept, so that n candidates need n trials on average or fewer: n/(sum of these
// probabilities). Their number depends on the scores, more openly than the time
// of noise depends on noise. Answer at an hour set beforehand where somebody
// could time it.
//
// An ExponentialMechanism is immutable and may be used by several goroutines at
// once.
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
