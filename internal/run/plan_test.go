package run

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/pipeline/pategan"
	"github.com/conclave-dp/conclave/internal/pipeline/plan"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/runfile"
	"github.com/conclave-dp/conclave/internal/runspec"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/partitiontest"
)

// charged is what the ledger will hold when all of a plan's labels are answered.
func charged(t *testing.T, p *plan.Plan, labels int64) []privacy.Event {
	t.Helper()
	testkit.Must(t, p.Drawable(0))
	return append(p.Training.Worst(labels), p.First().Events()...)
}

func tinySchema(t *testing.T) *partition.Schema {
	t.Helper()
	schema := partitiontest.Schema(t, schemaText)
	return schema
}

// The least noise for the labels fits the budget, and not one label more does.
func TestThePlanUsesTheBudgetAndNoMore(t *testing.T) {
	schema := tinySchema(t)
	for _, mechanism := range []pategan.Mechanism{pategan.GNMax, pategan.LNMax, pategan.ConfidentGNMax} {
		for _, epsilon := range []float64{0.1, 1, 10} {
			for _, labels := range []int{64, 1000} {
				t.Run(fmt.Sprintf("%s, epsilon %g, %d labels", mechanism, epsilon, labels), func(t *testing.T) {
					s := voteSpec()
					s.Privacy.Epsilon, s.Privacy.Delta, s.Teachers = epsilon, 1e-5, 500
					runfile.Section[pategan.Options](s).Mechanism,
						runfile.Section[pategan.Options](s).Labels = mechanism, labels
					p, err := NewPlan(s, schema)
					testkit.Must(t, err)
					budget := privacy.Budget{Epsilon: epsilon, Delta: 1e-5}
					claim, err := budget.Admit(nil, charged(t, p, int64(labels)))
					if err != nil {
						t.Fatalf("the plan does not fit: %v", err)
					}
					if claim.Epsilon > epsilon {
						t.Errorf("claim %v is above the budget %v", claim.Epsilon, epsilon)
					}
					if _, err := budget.Admit(nil, charged(t, p, int64(labels)+1)); !errors.Is(err,
						privacy.ErrOverBudget) {
						t.Errorf("one label more was admitted (%v); the plan has too much noise", err)
					}
				})
			}
		}
	}
}

func TestThePlanFollowsTheSpec(t *testing.T) {
	schema := tinySchema(t)
	plan := func(change func(*runfile.Spec)) *plan.Plan {
		t.Helper()
		s := voteSpec()
		s.Privacy.Epsilon, s.Privacy.Delta, s.Teachers = 1, 1e-5, 200
		change(s)
		p, err := NewPlan(s, schema)
		testkit.Must(t, err)
		return p
	}
	p := plan(func(s *runfile.Spec) {
		runfile.Section[pategan.Options](s).Labels, runfile.Section[pategan.Options](s).Queries = 130, 64
	})
	if p.Queries != 130 || p.Rounds != 3 || p.Classes != 2 || p.ClassShareEpsilon != 0.02 ||
		p.Training.Variant != privacy.Histogram {
		t.Errorf("plan %+v; want 130 labels in 3 rounds, 2 classes, 0.02 for the class shares, whole histograms", p)
	}
	p = plan(func(s *runfile.Spec) {})
	if want := pategan.LabelsFor(1, 200); p.Queries != want {
		t.Errorf("%d labels, want %d, chosen from epsilon and teachers", p.Queries, want)
	}
	p = plan(func(s *runfile.Spec) {
		runfile.Section[pategan.Options](s).Noise, runfile.Section[pategan.Options](s).Release = 77, "winner"
	})
	if p.Training.Mechanism.Sigma != 77 || p.Training.Variant != "" {
		t.Errorf("mechanism %v; want sigma 77 by hand and winners only", p.Training)
	}
	p = plan(func(s *runfile.Spec) {
		runfile.Section[pategan.Options](s).Noise, runfile.Section[pategan.Options](s).Mechanism = 0.01, pategan.LNMax
	})
	if p.Training.Mechanism.Lambda != 0.01 {
		t.Errorf("mechanism %v; want lambda 0.01 by hand", p.Training)
	}
	p = plan(func(s *runfile.Spec) {
		runfile.Section[pategan.Options](s).Noise, runfile.Section[pategan.Options](s).Mechanism,
			runfile.Section[pategan.Options](s).Threshold, runfile.Section[pategan.Options](s).ThresholdNoise = 50,
			pategan.ConfidentGNMax, 0.7, 2
	})
	if m := p.Training.Mechanism; m.Sigma2 != 50 || m.Sigma1 != 100 || math.Abs(m.Threshold-140) > 1e-9 {
		t.Errorf("mechanism %v; want sigma 50, threshold noise 100, threshold 140 of 200", m)
	}
}

func TestThePlanIsWhatTheAggregatorIsTold(t *testing.T) {
	schema := tinySchema(t)
	s := voteSpec()
	s.Name, s.Privacy.Epsilon, s.Privacy.Delta, s.Privacy.Unit = "r1", 1, 1e-5, "patient"
	p, err := NewPlan(s, schema)
	testkit.Must(t, err)
	got := RunSpec(p, s, schema, "data", true)
	if got.Name != "r1" || got.Dataset != "data" || got.Pipeline != "pategan" || got.SchemaSha256 != schema.SHA256 ||
		got.Epsilon != 1 || got.Delta != 1e-5 || got.Unit != "patient" || got.Guarantee != "data-independent" ||
		got.Teachers != 1000 || got.Quorum != 0.9 || got.DeadlineSeconds != 30 || !got.CoinVotes || got.Filter != "" {
		t.Errorf("spec %v", got)
	}
	plan, err := runspec.Plan(got)
	if err != nil || len(plan) != 2 || plan[0].Kind != runspec.ClassCounts || plan[0].Mechanism.Epsilon != 0.02 ||
		plan[1].Kind != runspec.Votes || plan[1].Count != int64(p.Queries) ||
		plan[1].Mechanism != p.Training.Mechanism {
		t.Errorf("plan %v, %v", plan, err)
	}
}

func TestNoiseThatCannotBeDrawnIsRefused(t *testing.T) {
	s := voteSpec()
	s.Privacy.Epsilon, s.Privacy.Delta, runfile.Section[pategan.Options](s).Noise = 1, 1e-5, 0.5
	if _, err := NewPlan(s, tinySchema(t)); err == nil ||
		!strings.Contains(err.Error(), "pategan.noise: 0.5 is below 1") {
		t.Errorf("error %v", err)
	}
}

// What the aggregator would refuse later is refused before a run is open.
func TestPlansThatCannotBeAskedAreRefused(t *testing.T) {
	schema := tinySchema(t)
	for name, c := range map[string]struct {
		change func(*runfile.Spec)
		want   []string // nothing: the plan works
	}{
		"tiny epsilon": {func(s *runfile.Spec) {
			s.Privacy.Epsilon = 1e-5
		}, []string{"pategan.class_share: 0.02", "privacy.epsilon 1e-05", "raise either"}},
		"tiny class share": {func(s *runfile.Spec) {
			runfile.Section[pategan.Options](s).ClassShare = 1e-7
		}, []string{"pategan.class_share: 1e-07", "raise either"}},
		"tiny epsilon, large class share": {func(s *runfile.Spec) {
			s.Privacy.Epsilon, runfile.Section[pategan.Options](s).ClassShare = 1e-5, 0.5
		}, nil},
		"no noise with lnmax": {func(s *runfile.Spec) {
			runfile.Section[pategan.Options](s).Mechanism, runfile.Section[pategan.Options](s).Noise = pategan.LNMax, 50
		}, []string{"pategan.noise: 50", "64 queries", "lambda of lnmax falls"}},
		"little noise with gnmax": {func(s *runfile.Spec) {
			runfile.Section[pategan.Options](s).Noise = 2
		}, []string{"pategan.noise: 2", "64 queries", "set pategan.noise"}},
		"little noise, few labels": {func(s *runfile.Spec) {
			runfile.Section[pategan.Options](s).Noise, runfile.Section[pategan.Options](s).Labels = 10, 2
		}, nil},
		"noise for a part only": {func(s *runfile.Spec) {
			runfile.Section[pategan.Options](s).Noise, runfile.Section[pategan.Options](s).Labels = 60, 100000
		}, nil},
		"too much noise": {func(s *runfile.Spec) {
			runfile.Section[pategan.Options](s).Noise = 1e12
		}, []string{"sigma", "noise"}},
		"lambda too small": {func(s *runfile.Spec) {
			runfile.Section[pategan.Options](s).Mechanism, runfile.Section[pategan.Options](s).Noise = pategan.LNMax,
				1e-13
		}, []string{"lambda", "pategan.noise"}},
		"no noise on the threshold": {func(s *runfile.Spec) {
			runfile.Section[pategan.Options](s).Mechanism, runfile.Section[pategan.Options](s).ThresholdNoise,
				runfile.Section[pategan.Options](s).Noise = pategan.ConfidentGNMax, 1e-3, 100
		}, []string{"sigma", "noise"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := voteSpec()
			s.Privacy.Epsilon, s.Privacy.Delta = 1, 1e-5
			c.change(s)
			_, err := NewPlan(s, schema)
			if (err != nil) != (c.want != nil) {
				t.Fatalf("error %v", err)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %q", err, want)
				}
			}
		})
	}
}
