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
		logQ := testkit.Value(GNMaxLogQ(r.Votes, r.Sigma))
		closeTo(t, "log q", logQ, r.LogQ, 1e-6)
		for i, alpha := range r.Orders {
			closeTo(t, "rdp of gnmax", testkit.Value(GNMaxRDP(r.Votes, r.Sigma, alpha)), r.Dependent[i], 1e-6)
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
			testkit.Value(ThresholdLogAnswered(r.Votes, r.Threshold, r.Sigma)), r.Answered, 1e-6)
		for i, alpha := range r.Orders {
			closeTo(t, "rdp of the test", testkit.Value(ThresholdRDP(r.Votes, r.Threshold, r.Sigma, alpha)),
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
		logQ := testkit.Value(LNMaxLogQ(r.Votes, 1/r.Scale))
		closeTo(t, "log q", logQ, r.LogQ, 1e-6)
		for i, alpha := range r.Orders {
			closeTo(t, "rdp with a likely outcome", testkit.Value(PureRDPWithLikelyOutcome(logQ, r.Pure, alpha)),
				r.RDP[i], 1e-6)
			// The reference does not know that LNMax is two releases of half
			// the epsilon.
			if got := testkit.Value(LNMaxRDP(r.Votes, 1/r.Scale, alpha)); got > r.RDP[i]*(1+1e-6) {
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

func TestReferenceSmoothSensitivity(t *testing.T) {
	type row struct {
		Votes    []int64   `json:"votes"`
		Teachers int       `json:"teachers"`
		Sigma    float64   `json:"sigma"`
		Order    float64   `json:"order"`
		Beta     float64   `json:"beta"`
		Local    []float64 `json:"local_sensitivity_by_distance"`
		Smooth   float64   `json:"smooth_sensitivity"`
	}
	refused := 0
	for _, r := range loadGroup[row](t, "gnmax_smooth_sensitivity") {
		// The reference does not check the conditions of its proof, so its
		// algorithm is compared first, then what is let out of it.
		c, err := newGNMaxCurve(r.Sigma, r.Order, len(r.Votes))
		if err != nil {
			t.Fatal(err)
		}
		local := c.byDistance(r.Votes, int64(r.Teachers))
		if len(local) != len(r.Local) {
			t.Fatalf("%d distances, want %d", len(local), len(r.Local))
		}
		for d := range local {
			closeTo(t, "local sensitivity", local[d], r.Local[d], 1e-6)
		}
		closeTo(t, "smooth sensitivity", c.smooth(r.Votes, r.Beta), r.Smooth, 1e-6)

		smooth, err := GNMaxSmoothSensitivity(r.Votes, r.Sigma, r.Order, r.Beta)
		if err == nil {
			closeTo(t, "smooth sensitivity", smooth, r.Smooth, 1e-6)
			continue
		}
		refused++
		// The refusal has to have a reason: a histogram of so many votes whose
		// local sensitivity is above all that the algorithm knows.
		unanimous := make([]int64, len(r.Votes))
		unanimous[0] = int64(r.Teachers)
		worst := 0.0
		for ; unanimous[0] > int64(r.Teachers)/2+1; unanimous[0], unanimous[1] = unanimous[0]-1, unanimous[1]+1 {
			worst = max(worst, c.local(gnmaxLogQ(unanimous, r.Sigma)))
		}
		if !(worst > c.plateau*1.01) {
			t.Errorf("sigma %v, order %v, %d classes: refused (%v) without a histogram that breaks the condition",
				r.Sigma, r.Order, len(r.Votes), err)
		}
	}
	if refused != 1 {
		t.Errorf("%d rows break the conditions, want the one with sigma 6.33 and order 16", refused)
	}
}
