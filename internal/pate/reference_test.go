package pate

import (
	"testing"

	"github.com/conclave-dp/conclave/internal/testkit"
)

func TestReferenceDataDependentGNMax(t *testing.T) {
	type row struct {
		Votes       []int64   `json:"votes"`
		Sigma       float64   `json:"sigma"`
		Orders      []float64 `json:"rdp_orders"`
		LogQ        float64   `json:"log_q"`
		Dependent   []float64 `json:"rdp_data_dependent"`
		Independent []float64 `json:"rdp_data_independent"`
	}
	for _, r := range loadGroup[row](t, "gnmax") {
		logQ := gnmaxLogQ(r.Votes, r.Sigma)
		closeTo(t, "log q", logQ, r.LogQ, 1e-6)
		for i, alpha := range r.Orders {
			closeTo(t, "rdp of gnmax", rdpOfGNMax(r.Votes, r.Sigma, alpha), r.Dependent[i], 1e-6)
			closeTo(t, "independent rdp of gnmax", newLikelyOutcome(logQ, r.Sigma).independent(alpha), r.Independent[i],
				1e-9)
		}
	}
}

func TestReferenceDataDependentThreshold(t *testing.T) {
	type row struct {
		Votes       []int64   `json:"votes"`
		Threshold   float64   `json:"threshold"`
		Sigma       float64   `json:"sigma"`
		Answered    float64   `json:"log_pr_answered"`
		Orders      []float64 `json:"rdp_orders"`
		Dependent   []float64 `json:"rdp_data_dependent"`
		Independent []float64 `json:"rdp_data_independent"`
	}
	for _, r := range loadGroup[row](t, "confident_threshold") {
		closeTo(t, "log of the probability to be answered",
			logTailAt(thresholdDistance(r.Votes, r.Threshold, r.Sigma)), r.Answered, 1e-6)
		for i, alpha := range r.Orders {
			closeTo(t, "rdp of the test", rdpOfThreshold(r.Votes, r.Threshold, r.Sigma, alpha),
				r.Dependent[i], 1e-6)
			closeTo(t, "independent rdp of the test",
				thresholdOutcome(r.Votes, r.Threshold, r.Sigma).independent(alpha), r.Independent[i], 1e-9)
		}
	}
}

func TestReferenceDataDependentLNMax(t *testing.T) {
	type row struct {
		Votes  []int64   `json:"votes"`
		Scale  float64   `json:"laplace_scale"`
		LogQ   float64   `json:"log_q"`
		Pure   float64   `json:"pure_epsilon"`
		Orders []float64 `json:"rdp_orders"`
		RDP    []float64 `json:"rdp"`
	}
	for _, r := range loadGroup[row](t, "lnmax") {
		logQ := lnmaxLogQ(r.Votes, 1/r.Scale)
		closeTo(t, "log q", logQ, r.LogQ, 1e-6)
		for i, alpha := range r.Orders {
			closeTo(t, "rdp with a likely outcome", pureLikelyRDP(logQ, r.Pure, alpha),
				r.RDP[i], 1e-6)
			// The reference does not know that LNMax is two releases of half
			// the epsilon.
			if got := rdpOfLNMax(r.Votes, 1/r.Scale, alpha); got > r.RDP[i]*(1+1e-6) {
				t.Errorf("rdp of lnmax = %v, above the reference's %v", got, r.RDP[i])
			}
		}
	}
}

func TestReferencePATEGANMoments(t *testing.T) {
	type row struct {
		Votes   [][]int64 `json:"votes"`
		Lambda  float64   `json:"inverse_scale_lambda"`
		Delta   float64   `json:"delta"`
		Moments int       `json:"moments"`
		Epsilon float64   `json:"epsilon"`
	}
	for _, r := range loadGroup[row](t, "pategan_moments_accountant") {
		if r.Moments != PATEGANMomentOrders {
			t.Fatalf("the reference follows %d moments", r.Moments)
		}
		closeTo(t, "epsilon", testkit.Value(PATEGANMoments(r.Votes, r.Lambda, r.Delta)), r.Epsilon, 1e-6)
	}
}
