package ledger

import (
	"math"
	"testing"

	"github.com/conclave-dp/conclave/internal/privacy"
)

// closeTo fails unless got is within a relative tolerance of want.
func closeTo(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if math.IsNaN(got) || math.Abs(got-want) > tolerance*math.Abs(want) {
		t.Errorf("%s = %.17g, want %.17g within %g (relative)", what, got, want, tolerance)
	}
}

func mustAccount(t *testing.T, events []privacy.Event, delta float64) privacy.Claim {
	t.Helper()
	claim, err := privacy.Account(events, delta)
	if err != nil {
		t.Fatal(err)
	}
	return claim
}

func sampled(rate, sigma float64, count int64) privacy.Event {
	return privacy.Event{Kind: privacy.SubsampledGaussian, Rate: rate, NoiseMultiplier: sigma, Count: count}
}

// planFor fills the budget with the class shares and samples.
func planFor(t testing.TB, b privacy.Budget, releases int64) privacy.Plan {
	t.Helper()
	sigma, err := privacy.SampledSigma(b, 0.02, releases, []privacy.Event{shares})
	if err != nil {
		t.Fatal(err)
	}
	return privacy.Plan{shares, sampled(0.02, sigma, releases)}
}
