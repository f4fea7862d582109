package gnmax

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"
)

// falseFailure is the probability that a run of this package's tests fails although all samplers are correct. It is
// shared among fewer than 200 statistical checks, which leaves a factor of 10 for their approximations (Poisson
// counts of 1000 and more treated as normal: a factor of 8 at most).
const (
	falseFailure = 1e-9
	perCheck     = falseFailure / 2000
	// deviations is the number of standard errors that a normal variable exceeds with probability perCheck, on either
	// side.
	deviations = 7.23
)

// chiSquareOf tests a sample of integers against their exact mass function (up to a
// factor). Neighbouring integers share a bin until 1000 of the sample are expected in it;
// all integers beyond its ends share the last bins. It must hold all but a negligible
// share of the mass.
func chiSquareOf(t *testing.T, sample []int64, exact pmf) {
	t.Helper()
	total := exact.total()
	last := exact.from + len(exact.mass) - 1
	counts := make([]float64, len(exact.mass))
	for _, x := range sample {
		counts[max(exact.from, min(last, int(x)))-exact.from]++
	}
	var statistic, expected, seen, bins float64
	var lastExpected, lastSeen float64
	for i, m := range exact.mass {
		expected += float64(len(sample)) * m / total
		seen += counts[i]
		if expected < 1000 {
			continue
		}
		statistic += (seen - expected) * (seen - expected) / expected
		lastExpected, lastSeen = expected, seen
		expected, seen = 0, 0
		bins++
	}
	if bins < 2 {
		t.Fatalf("only %v bins: too small a sample", bins)
	}
	// The remainder joins the last bin.
	statistic -= (lastSeen - lastExpected) * (lastSeen - lastExpected) / lastExpected
	off := lastSeen + seen - lastExpected - expected
	statistic += off * off / (lastExpected + expected)
	limit := distuv.ChiSquared{K: bins - 1}.Quantile(1 - perCheck)
	if !(statistic < limit) {
		t.Errorf("chi-square is %.1f with %v bins; above %.1f with probability %g only", statistic, bins, limit,
			perCheck)
	}
}

// checkMean fails when a mean of n numbers with that expectation and variance is
// too far off.
func checkMean(t *testing.T, what string, got, want, variance float64, n int) {
	t.Helper()
	if e := deviations * math.Sqrt(variance/float64(n)); !(math.Abs(got-want) <= e) {
		t.Errorf("%s is %v, want %v within %v", what, got, want, e)
	}
}
