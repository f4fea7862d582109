package drs

import (
	"math"
	"slices"
)

const (
	// clip keeps probabilities inside (0, 1): a discriminator that is certain in float32
	// would otherwise have infinite log-odds, and nothing else would ever be accepted.
	clip = 1e-7
	// slack is the paper's epsilon, which keeps the logarithm finite at the largest score.
	slack = 1e-6
)

// logOdds are the log-odds of a probability.
func logOdds(p float64) float64 {
	p = min(1-clip, max(clip, p))
	return math.Log(p) - math.Log1p(-p)
}

// threshold is the rule by which log-odds d are accepted: with probability sigmoid(F(d)),
//
//	F(d) = d - largest - log(1 - exp(d - largest - slack)) - gamma
//
// (Azadi et al. 2019, equation 8). With gamma 0 that is exp(d - largest), but for slack.
type threshold struct {
	// largest is the largest log-odds seen.
	largest float64
	// half are the log-odds at the percentile, NaN for no shift. F grows with d, so gamma is F at half,
	// whatever the largest turns out to be.
	half float64
}

// newThreshold takes the largest log-odds and the percentile from a burn-in, which is not empty.
func newThreshold(burn []float64, percentile float64) threshold {
	sorted := slices.Sorted(slices.Values(burn))
	last := len(sorted) - 1
	t := threshold{largest: sorted[last], half: math.NaN()}
	if percentile > 0 {
		t.half = sorted[int(math.Round(percentile/100*float64(last)))]
	}
	return t
}

// saw raises the largest log-odds where these are larger.
func (t *threshold) saw(d float64) { t.largest = math.Max(t.largest, d) }

// gamma is the shift.
func (t *threshold) gamma() float64 {
	if math.IsNaN(t.half) {
		return 0
	}
	return t.unshifted(t.half)
}

func (t *threshold) unshifted(d float64) float64 {
	d -= t.largest // at most 0
	return d - math.Log(-math.Expm1(d-slack))
}

// acceptance is the probability of accepting log-odds of at most the largest.
func (t *threshold) acceptance(d float64) float64 {
	return 1 / (1 + math.Exp(t.gamma()-t.unshifted(d)))
}
