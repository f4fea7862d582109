package runspec

import (
	"slices"
	"strings"
	"testing"

	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"

	"github.com/conclave-dp/conclave/internal/privacy"
)

// every has a plan entry of each mechanism, with every field that one can have.
var every = privacy.Plan{
	{Kind: ClassCounts, Mechanism: privacy.Event{Kind: privacy.Laplace, Epsilon: 0.05}, Count: 1},
	{Kind: Embedding, Mechanism: privacy.Event{Kind: privacy.Gaussian, Sigma: 5.2, Sensitivity: 1}, Count: 1},
	{Kind: Votes, Mechanism: privacy.Event{Kind: privacy.GNMax, Sigma: 40}, Variant: privacy.Histogram},
	{Kind: Votes, Mechanism: privacy.Event{Kind: privacy.ConfidentGNMax, Threshold: 9, Sigma1: 8, Sigma2: 7},
		Count: 64},
	{Kind: GradientVotes, Mechanism: privacy.Event{Kind: privacy.LNMax, Lambda: 0.1}},
	{Kind: Discriminator, Stage: Sampled, Count: 200,
		Mechanism: privacy.Event{Kind: privacy.SubsampledGaussian, Rate: 0.1, NoiseMultiplier: 3}},
	{Kind: Scores, Stage: Selections, Mechanism: privacy.Event{Kind: privacy.Exponential, Epsilon: 0.02}, Count: 20},
	{Kind: Fit, Stage: Coefficients, Count: 1, Variant: privacy.NormGamma,
		Mechanism: privacy.Event{Kind: privacy.Laplace, Epsilon: 0.3}},
}

func TestAPlanIsTheSameOnTheWire(t *testing.T) {
	got, err := Plan(&conclavev1.RunSpec{Plan: Of(every)})
	if err != nil || !slices.Equal(got, every) {
		t.Errorf("got %v, %v\nwant %v", got, err, every)
	}
}

func TestPlansThatHaveNoPriceAreRefused(t *testing.T) {
	for want, change := range map[string]func(*conclavev1.RunSpec){
		"0 entries":                func(s *conclavev1.RunSpec) { s.Plan = nil },
		"entry 1: count is":        func(s *conclavev1.RunSpec) { s.Plan[1].Count = 1<<63 + 1 },
		"entry 2: gnmax event":     func(s *conclavev1.RunSpec) { s.Plan[2].Mechanism.Sigma = 0 },
		`entry 0: kind "" is`:      func(s *conclavev1.RunSpec) { s.Plan[0].Mechanism = nil },
		"entry 3: mechanism":       func(s *conclavev1.RunSpec) { s.Plan[3].Mechanism.Asked = 1 },
		`entry 7: variant "fancy"`: func(s *conclavev1.RunSpec) { s.Plan[7].Variant = "fancy" },
		"entry 1, for embedding, pays for a sensitivity of 1e-06": func(s *conclavev1.RunSpec) {
			s.Plan[1].Mechanism.Sensitivity = 1e-6
		},
		"entry 0, for class-counts, pays for a sensitivity of 1, and a privacy unit may be at up to 2 sites": func(
			s *conclavev1.RunSpec,
		) {
			s.Overlap = 2
		},
		"entry 6, for scores, pays for a sensitivity of 2": func(s *conclavev1.RunSpec) {
			s.Plan[6].Mechanism.Sensitivity = 2
		},
	} {
		spec := &conclavev1.RunSpec{Plan: Of(every)}
		change(spec)
		if _, err := Plan(spec); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

func TestBudgets(t *testing.T) {
	spec := &conclavev1.RunSpec{Epsilon: 1, Delta: 1e-5, Filter: "pld"}
	if b, err := Budget(spec); err != nil || b != (privacy.Budget{Epsilon: 1, Delta: 1e-5, Filter: privacy.FilterPLD}) {
		t.Errorf("budget %v, %v", b, err)
	}
	for _, bad := range []*conclavev1.RunSpec{{}, {Epsilon: 1, Delta: 1e-5, Filter: "best"},
		{Epsilon: -1, Delta: 1e-5}} {
		if b, err := Budget(bad); err == nil {
			t.Errorf("%v has the budget %v", bad, b)
		}
	}
}
