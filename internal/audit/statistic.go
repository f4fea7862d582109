package audit

import (
	"fmt"
	"math"

	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// statistic turns the releases of one run, in order, into one number that
// grows with the likelihood of world 0 over that of world 1. It may be wrong
// about the mechanism: the bound holds for any statistic, a bad one only sees
// less.
type statistic func(releases []*conclavev1.Release) (float64, error)

// perQuery adds up a log-likelihood ratio over the votes of all rounds: queries are
// answered with noise of their own. The ratio is that of whole histograms; where
// they are not released, winnerRatio takes its place.
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
				return 0, fmt.Errorf("round %d of run %q: the release holds %d labels and %d counts, "+
					"due were %d and %d",
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

// winnerRatio is that of a winner near a tie, where the worlds mirror each other:
// each win of class 0 speaks as much for world 0 as a win of class 1 against
// it.
func winnerRatio(label int32, _ []int64) float64 { return 1 - 2*float64(label) }

// gaussianRatio is that of two counts with Gaussian noise sigma, which are
// counts in world 0 and one vote further on in world 1. Where they are more votes further on it grows with the ratio.
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

// moved is how much further a draw of noise is from what another centre, by away,
// would have it.
func moved(noise, by int64) float64 {
	return math.Abs(float64(noise-by)) - math.Abs(float64(noise))
}

// confidentRatio is gaussianRatio with a test in front whose outcome shows: a
// release, or none. Class 0 is the larger in both worlds.
func confidentRatio(counts [2]int64, threshold, sigma1, sigma2 float64) func(int32, []int64) float64 {
	// The noise is whole, so the border lies half a vote below the threshold.
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

// countRatio is that of noisy class counts, of which world 1 has one unit less
// in class 0; the others are the same in both worlds and say nothing.
func countRatio(count int64, scale uint64, epsilon float64) statistic {
	return func(releases []*conclavev1.Release) (float64, error) {
		sum := 0.0
		for _, r := range releases {
			values := r.GetSum().GetValues()
			if len(values) == 0 {
				return 0, fmt.Errorf("round %d of run %q: the release holds no counts", r.GetRound(), r.GetRun())
			}
			sum += epsilon / float64(scale) * moved(values[0]-count, -int64(scale))
		}
		return sum, nil
	}
}
