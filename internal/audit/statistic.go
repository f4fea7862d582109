package audit

import (
	"fmt"
	"math"

	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// statistic maps the releases of one run, in order, to a number that increases with the likelihood of world 0 over
// that of world 1. It may be wrong about the mechanism: the bound holds for any statistic, but a bad one finds
// less.
type statistic func(releases []*conclavev1.Release) (float64, error)

// perQuery adds up a log-likelihood ratio over the votes of all rounds: each query has its own noise. The ratio is
// that of whole histograms; if they are not released, winnerRatio replaces it.
func perQuery(queries int, whole bool, ratio func(label int32, noisy []int64) float64) statistic {
	if !whole {
		ratio = winnerRatio
	}
	return func(releases []*conclavev1.Release) (float64, error) {
		sum := 0.0
		for _, r := range releases {
			votes := r.GetVotes()
			rows := 0
			if whole {
				rows = 2 * queries
			}
			if len(votes.GetLabels()) != queries || len(votes.GetHistogram()) != rows {
				return 0, fmt.Errorf("round %d of run %q: the release has %d labels and %d counts, want %d and %d",
					r.GetRound(), r.GetRun(), len(votes.GetLabels()), len(votes.GetHistogram()), queries, rows)
			}
			for q, label := range votes.GetLabels() {
				var noisy []int64
				if whole {
					noisy = votes.GetHistogram()[2*q : 2*q+2]
				}
				sum += ratio(label, noisy)
			}
		}
		return sum, nil
	}
}

// winnerRatio is the ratio for a winner near a tie, where the worlds mirror each other: a win of class 0 favours
// world 0 as much as a win of class 1 favours world 1.
func winnerRatio(label int32, _ []int64) float64 { return 1 - 2*float64(label) }

// gaussianRatio is the ratio for two counts with Gaussian noise sigma, which are counts in world 0 and moved by
// one vote in world 1. If they are moved by more votes, it increases with the ratio.
func gaussianRatio(counts [2]int64, sigma float64) func(int32, []int64) float64 {
	return func(_ int32, noisy []int64) float64 {
		return float64(noisy[0]-counts[0]-noisy[1]+counts[1]+1) / (sigma * sigma)
	}
}

// laplaceRatio is gaussianRatio with Laplace noise of inverse scale lambda.
func laplaceRatio(counts [2]int64, lambda float64) func(int32, []int64) float64 {
	return func(_ int32, noisy []int64) float64 {
		return lambda * (moved(noisy[0]-counts[0], -1) + moved(noisy[1]-counts[1], 1))
	}
}

// moved is how much farther a draw of noise is from a centre at by than from zero.
func moved(noise, by int64) float64 {
	return math.Abs(float64(noise-by)) - math.Abs(float64(noise))
}

// confidentRatio is gaussianRatio after a test with a visible outcome: a release, or none. Class 0 is the larger
// one in both worlds.
func confidentRatio(counts [2]int64, threshold, sigma1, sigma2 float64) func(int32, []int64) float64 {
	// The noise is an integer, so the border lies half a vote below the threshold.
	fails := func(count int64) float64 {
		return math.Erfc((float64(count)-threshold+0.5)/(sigma1*math.Sqrt2)) / 2
	}
	here, there := fails(counts[0]), fails(counts[0]-1)
	refused, passed := math.Log(here/there), math.Log((1-here)/(1-there))
	answer := gaussianRatio(counts, sigma2)
	return func(label int32, noisy []int64) float64 {
		if label < 0 {
			return refused
		}
		return passed + answer(label, noisy)
	}
}

// countRatio is the ratio for noisy class counts, where world 1 has one unit less in class 0. The other counts are
// equal in both worlds and carry no information.
func countRatio(count int64, scale uint64, epsilon float64) statistic {
	return func(releases []*conclavev1.Release) (float64, error) {
		sum := 0.0
		for _, r := range releases {
			values := r.GetSum().GetValues()
			if len(values) == 0 {
				return 0, fmt.Errorf("round %d of run %q: the release has no counts", r.GetRound(), r.GetRun())
			}
			sum += epsilon / float64(scale) * moved(values[0]-count, -int64(scale))
		}
		return sum, nil
	}
}
