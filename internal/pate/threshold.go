package pate

import "math"

// thresholdDistance is how far the largest count lies below the threshold, in
// standard deviations of the test.
func thresholdDistance(votes []int64, threshold, sigma1 float64) float64 {
	largest := votes[0]
	for _, n := range votes[1:] {
		largest = max(largest, n)
	}
	return (threshold - float64(largest)) / sigma1
}

// thresholdOutcome bounds the divergence of the test of Confident-GNMax alone: the largest count plus N(0,
// sigma1²) is at least the threshold (Papernot et al. 2018, Algorithm 1). Threshold is a number of votes. Its q is
// the probability of the rarer outcome: that of noise beyond the distance.
//
// Why it holds: the test has two outcomes and the less likely one has probability q. One moved vote changes the
// largest count by at most 1, but GNMax's histogram by sqrt 2, so the test has the RDP of a GNMax of noise sqrt(2)
// sigma1, and Theorem 6 of Papernot et al. 2018 applies with that q. It holds for every outcome. A query that was
// answered costs a GNMax with fresh noise on top: the two draw their noise independently, and divergences of one
// order add up (Mironov 2017, Proposition 1). Whether the query was answered is part of the release and is taken
// as given, as [privacy.Account] takes the number of answers.
func thresholdOutcome(votes []int64, threshold, sigma1 float64) likelyOutcome {
	return newLikelyOutcome(logTailAt(math.Abs(thresholdDistance(votes, threshold, sigma1))), math.Sqrt2*sigma1)
}
