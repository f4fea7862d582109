package coordinator

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/testkit"
)

var (
	byPLD = privacy.Budget{Epsilon: 1, Delta: 1e-5, Filter: privacy.FilterPLD}
	plan  = privacy.Plan{
		{Kind: "class-counts", Count: 1, Mechanism: privacy.Event{Kind: privacy.Laplace, Epsilon: 0.05}},
		{Kind: "discriminator", Count: 6,
			Mechanism: privacy.Event{Kind: privacy.SubsampledGaussian, Rate: 0.05, NoiseMultiplier: 2}},
	}
)

func plannedRun(name string) Run {
	r := testRun(name)
	r.Budget, r.Plan = byPLD, plan
	return r
}

// sampleCharge is a planned run's release in a round; round 0 has the class shares.
func sampleCharge(run string, round uint64) Charge {
	c := Charge{
		Question: Question{Run: run, Round: round, Use: privacy.Use{Planned: 1, Queries: 1, Answered: 1}}, Entries: 9,
		Release: fmt.Append(nil, "answer ", round),
	}
	if round == 0 {
		c.Use.Planned, c.Entries = 0, 2
	}
	return c
}

// plannedStore has a dataset with this budget and no run.
func plannedStore(t testing.TB, budget privacy.Budget) (*Store, *Leadership, Dataset) {
	t.Helper()
	s := openStore(t, Config{Endpoints: runEtcd(t, t.TempDir()).Endpoints()})
	lead := leadAs(t, s, "agg")
	d := testDataset
	d.Budget = budget
	testkit.Must(t, s.OpenDataset(testkit.Within(t), lead, d))
	return s, lead, d
}

func TestPlannedRun(t *testing.T) {
	t.Parallel()
	for _, budget := range []privacy.Budget{byPLD, {Epsilon: 4, Delta: 1e-5, Filter: privacy.FilterRDP}} {
		s, lead, d := plannedStore(t, budget)
		ctx := testkit.Within(t)
		for _, existing := range []bool{false, true} {
			if was, err := s.OpenRun(ctx, lead, plannedRun("one")); err != nil || was != existing {
				t.Fatalf("opened: %v, %v", was, err)
			}
		}
		other := plannedRun("one")
		other.Plan = plan[1:]
		if _, err := s.OpenRun(ctx, lead, other); !errors.Is(err, ErrRunExists) ||
			!strings.Contains(err.Error(), "another plan") {
			t.Errorf("with another plan: %v", err)
		}
		outside := sampleCharge("one", 0)
		outside.Use.Queries, outside.Use.Answered = 2, 2
		for round := range uint64(7) {
			if _, _, err := s.Charge(ctx, lead, outside); !errors.Is(err, privacy.ErrOverBudget) {
				t.Errorf("round %d, outside the plan: %v", round, err)
			}
			if _, entry, err := s.Charge(ctx, lead, sampleCharge("one", round)); err != nil || entry.EpsilonSpent > 1 {
				t.Fatalf("round %d: %+v, %v", round, entry, err)
			}
			outside.Round = round + 1
			if err := s.OpenDataset(ctx, lead, d); err != nil { // a restart audits
				t.Fatalf("after round %d: %v", round, err)
			}
		}
		before := everything(t, s)
		var over *privacy.PlanError
		if _, _, err := s.Charge(ctx, lead, sampleCharge("one", 7)); !errors.As(err, &over) ||
			!strings.Contains(err.Error(), "the plan is used up") {
			t.Errorf("past the plan: %v", err)
		}
		testkit.Same(t, "a refusal wrote", before, everything(t, s))
		mustClose(t, s, lead, "one")
		ofRun, ofDataset, err := spending(s, "one")
		if err != nil || !cmp.Equal(ofRun.Spent, plan.Events()) || !cmp.Equal(ofDataset.Spent, plan.Events()) ||
			!cmp.Equal(ofRun.Used, []int64{1, 6}) {
			t.Errorf("spending %+v, %+v, %v", ofRun, ofDataset, err)
		}
		run, err := s.Run(ctx, "one")
		testkit.Must(t, err)
		claim, err := privacy.Account(plan.Events(), 1e-5)
		if err != nil || run.PlanEpsilon != claim.Epsilon || run.EpsilonSpent != claim.Epsilon {
			t.Errorf("run %+v; the plan's claim is %v, %v", run, claim.Epsilon, err)
		}
		if _, v := ledgerOf(t, s); v.Runs["one"].Price.Epsilon != claim.Epsilon {
			t.Errorf("the ledger's claim is %v", v.Runs["one"].Price.Epsilon)
		}
	}
}

func TestOpenRunRefusesPlans(t *testing.T) {
	t.Parallel()
	few := privacy.Budget{Epsilon: 0.01, Delta: 1e-5, Filter: privacy.FilterPLD}
	for _, tc := range []struct {
		name, message string
		dataset       privacy.Budget
		change        func(*Run)
		want          error
	}{
		{"no plan", "0 entries", byPLD, func(r *Run) { r.Plan = nil }, nil},
		{"no plan by another filter", "0 entries", privacy.Budget{Epsilon: 3, Delta: 1e-5}, func(r *Run) {
			r.Budget.Filter, r.Plan = "", nil
		}, nil},
		{"a run by another filter on a dataset by pld", "needs a run with filter pld", byPLD, func(r *Run) {
			r.Budget.Filter = ""
		}, privacy.ErrPlan},
		{"an open count", "is not known in advance", byPLD, func(r *Run) {
			r.Plan = privacy.Plan{plan[0], {Kind: "votes", Mechanism: privacy.Event{Kind: privacy.GNMax, Sigma: 900}}}
		}, privacy.ErrPlan},
		{"over its budget", "the whole plan", byPLD, func(r *Run) { r.Budget = few }, privacy.ErrOverBudget},
		{"over the dataset's", "the whole plan", few, func(r *Run) {}, privacy.ErrOverBudget},
		{"samples on a dataset by gdp", "filter, gdp (rdp suits samples, pld a dataset of one run)",
			privacy.Budget{Epsilon: 1, Delta: 1e-5}, func(r *Run) {}, privacy.ErrOverBudget},
		{"an event that cannot be planned", "confident-gnmax", byPLD, func(r *Run) {
			r.Plan = privacy.Plan{{Kind: "votes", Count: 3,
				Mechanism: privacy.Event{Kind: privacy.ConfidentGNMax, Sigma1: 300, Sigma2: 200}}}
		}, privacy.ErrPlan},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, lead, _ := plannedStore(t, tc.dataset)
			before := everything(t, s)
			r := plannedRun("one")
			tc.change(&r)
			_, err := s.OpenRun(testkit.Within(t), lead, r)
			if err == nil || tc.want != nil && !errors.Is(err, tc.want) || !strings.Contains(err.Error(), tc.message) {
				t.Errorf("error %v, want %q", err, tc.message)
			}
			testkit.Same(t, "a refusal wrote", before, everything(t, s))
		})
	}
}

// A second run is refused also while nothing is spent, and after the first run is closed: its plan may depend on the
// first run's results.
func TestOneRunOnADatasetByPLD(t *testing.T) {
	t.Parallel()
	s, lead, d := plannedStore(t, byPLD)
	ctx := testkit.Within(t)
	mustOpen(t, s, lead, plannedRun("one"))
	second := plannedRun("two")
	second.Plan = plan[:1]
	for range 2 {
		if _, err := s.OpenRun(ctx, lead, second); !errors.Is(err, privacy.ErrPlan) ||
			!strings.Contains(err.Error(), "can have only one run") {
			t.Errorf("a second run: %v", err)
		}
		mustClose(t, s, lead, "one")
	}
	if existing, err := s.OpenRun(ctx, lead, plannedRun("one")); err != nil || !existing {
		t.Errorf("the first run again: %v, %v", existing, err)
	}
	if err := s.OpenDataset(ctx, lead, d); err != nil {
		t.Error(err)
	}
}

// The stored totals must agree with the ledger.
func TestAuditFindsAnotherPlan(t *testing.T) {
	t.Parallel()
	s, lead, d := plannedStore(t, byPLD)
	ctx := testkit.Within(t)
	mustOpen(t, s, lead, plannedRun("one"))
	good, err := s.Run(ctx, "one")
	testkit.Must(t, err)
	more := good
	more.Plan = privacy.Plan{plan[0], plan[1]}
	more.Plan[1].Count = 1000
	cheaper, used := good, good
	cheaper.PlanEpsilon /= 2
	used.Used = []int64{0, 1}
	for _, bad := range []Run{more, cheaper, used} {
		value, err := encode(bad)
		testkit.Must(t, err)
		testkit.Must(t, second(s.client.Put(ctx, s.runKey("one"), value)))
		if err := s.OpenDataset(ctx, lead, d); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}
