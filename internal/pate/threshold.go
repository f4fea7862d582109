package pate

import (
	"math"

	"github.com/conclave-dp/conclave/internal/privacy"
)

// ThresholdLogAnswered returns the natural logarithm of the probability that
// the test of Confident-GNMax passes: the largest count plus N(0, sigma1²) is at
// least the threshold (Papernot et al. 2018, Algorithm 1). Threshold is a number
// of votes, sigma1 the noise of the test in votes. The errors are [*privacy.FieldError].
//
// The figure depends on the votes, so it is as private as they are.
func ThresholdLogAnswered(votes []int64, threshold, sigma1 float64) (float64, error) {
	if _, err := checkVotes(votes); err != nil {
		return 0, err
	}
	if err := checkThreshold(threshold, sigma1); err != nil {
		return 0, err
	}
	return logTailAt(thresholdDistance(votes, threshold, sigma1)), nil
}

// ThresholdRDP returns a data-dependent bound on the Rényi divergence of order
// alpha of the test alone, in nats, never above the alpha/(2 sigma1²) that holds
// for all votes.
//
// Why it holds: the test has two outcomes and the less likely of them has the
// probability q. One moved vote changes the largest count by at most 1, where it
// changes GNMax's histogram by sqrt 2, so the test has the RDP of a GNMax of
// noise sqrt(2) sigma1, and Theorem 6 of Papernot et al. 2018 applies with that
// q. It holds whatever the outcome was. What it does not promise is said at
// [GNMaxRDP].
func ThresholdRDP(votes []int64, threshold, sigma1, alpha float64) (float64, error) {
	if err := checkOrder("alpha", alpha); err != nil {
		return 0, err
	}
	if _, err := checkVotes(votes); err != nil {
		return 0, err
	}
	if err := checkThreshold(threshold, sigma1); err != nil {
		return 0, err
	}
	return checkFigure("sigma1", thresholdOutcome(votes, threshold, sigma1).rdp(alpha))
}

// ConfidentRDP returns a data-dependent bound on the Rényi divergence of order
// alpha of one Confident-GNMax query, in nats: the test, and where it was
// answered a [GNMaxRDP] with fresh noise sigma2 on top.
//
// Why it holds: the two draw their noise independently, and divergences of one
// order add up (Mironov 2017, Proposition 1). Whether the query was answered is
// part of the release and is taken as given, as [privacy.Account] takes the number of
// answers.
func ConfidentRDP(votes []int64, threshold, sigma1, sigma2 float64, answered bool, alpha float64) (float64, error) {
	test, err := ThresholdRDP(votes, threshold, sigma1, alpha)
	if err != nil {
		return 0, err
	}
	// Checked for unanswered queries too: what is no mechanism has no cost.
	if err := checkPositive("sigma2", sigma2); err != nil {
		return 0, err
	}
	if !answered {
		return test, nil
	}
	answer, err := GNMaxRDP(votes, sigma2, alpha)
	if err != nil {
		return 0, err
	}
	return checkFigure("sigma2", test+answer)
}

func checkThreshold(threshold, sigma1 float64) error {
	if !finite(threshold) || threshold < 0 {
		return privacy.FieldErrorf("threshold", "is %v; it must be a number of votes, zero or more", threshold)
	}
	return checkPositive("sigma1", sigma1)
}

// thresholdDistance is how far the largest count lies below the threshold, in
// standard deviations of the test.
func thresholdDistance(votes []int64, threshold, sigma1 float64) float64 {
	largest := votes[0]
	for _, n := range votes[1:] {
		largest = max(largest, n)
	}
	return (threshold - float64(largest)) / sigma1
}

// thresholdOutcome has the smaller of both outcomes' probabilities as its q:
// that of noise beyond the distance, on the side where it is rarer.
func thresholdOutcome(votes []int64, threshold, sigma1 float64) likelyOutcome {
	return newLikelyOutcome(logTailAt(math.Abs(thresholdDistance(votes, threshold, sigma1))), math.Sqrt2*sigma1)
}
