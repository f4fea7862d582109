package aggregator

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"

	"github.com/conclave-dp/conclave/internal/aggregator/roundtest"
	"github.com/conclave-dp/conclave/internal/ledger"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/runspec"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// planOf is the plan of a run from its ledger entry.
func planOf(t *testing.T, lines, run string) privacy.Plan {
	t.Helper()
	for line := range strings.Lines(lines) {
		var e ledger.Entry
		testkit.Must(t, json.Unmarshal([]byte(line), &e))
		if e.Type == ledger.EntryRun && e.Run == run {
			if e.Budget.Filter != privacy.FilterPLD {
				t.Errorf("the run's budget is %+v", *e.Budget)
			}
			return e.Plan
		}
	}
	t.Fatalf("run %q is not in the ledger", run)
	return nil
}

// Each plan entry is used as often as it allows, also beside one of the same cost, and only the named entry pays for
// a round. Other questions are refused before a node is asked.
func TestRoundsKeepToThePlanOfStages(t *testing.T) {
	c := shared(t)
	student := c.student(t)
	d := c.planned()
	plan := privacy.Plan{
		roundtest.Planned(runspec.Discriminator, roundtest.Subsampled(2, 0.25), 1),
		// such as dp-mlp beside dpgan
		roundtest.InStage(runspec.Sampled, roundtest.Planned(runspec.Discriminator, roundtest.Subsampled(3, 0.25), 1)),
		roundtest.InStage("again", roundtest.Planned(runspec.Discriminator, roundtest.Subsampled(2, 0.25), 1)),
		roundtest.InStage(runspec.Selections, roundtest.Planned(runspec.Scores, roundtest.Exponential(0.25), 2)),
		roundtest.Planned(runspec.Discriminator, roundtest.Subsampled(3, 0.5), 1),
	}
	spec, _ := student.open(t, d, roundtest.Both(roundtest.Wholly, roundtest.Asks(plan...)))
	node := c.node(t, hello(d, "north", "a", 8), func(r *conclavev1.Round) []*conclavev1.WorkRequest {
		if r.GetKind() == runspec.Scores {
			return roundtest.Sums(roundtest.Units(0, 0))(r)
		}
		return roundtest.Sums(make([]int64, 3))(r)
	})
	at := func(number uint64, entry uint32, rate float64) *conclavev1.Round {
		r := roundtest.DiscriminatorRound(spec.Name, number, 3, func(v *conclavev1.Vector) { v.Rate = rate })
		r.Planned = entry
		return r
	}
	selection := func(number uint64) *conclavev1.Round {
		return roundtest.Paid(spec, runspec.Selections,
			roundtest.SelectionRound(spec.Name, number, roundtest.Units(0, 0),
				func(q *conclavev1.Selection) { q.Round = 1 }))
	}
	testkit.Same(t, "the plan in the ledger", plan, planOf(t, student.lines(t, spec.Name), spec.Name))
	charged := 0
	refused := func(r *conclavev1.Round, code codes.Code, names ...string) {
		t.Helper()
		seen := len(node.rounds)
		student.refused(t, r, code, append(names, spec.Name)...)
		if len(node.rounds) != seen || len(student.ledger(t, spec.Name)) != charged {
			t.Error("the node was asked, or the round charged")
		}
	}
	paysFor := func(entry int, r *conclavev1.Round, multiplier float64) {
		t.Helper()
		student.mustAsk(t, r)
		charged++
		e := student.ledger(t, spec.Name)[charged-1]
		if *e.Planned != entry || !cmp.Equal(e.Events, plan[entry].Worst(1)) || e.Kind != plan[entry].Kind ||
			e.Queries != 1 || e.Answered != 1 {
			t.Errorf("round %d is charged as %+v", r.Number, e)
		}
		if multiplier != 0 && e.Events[0].NoiseMultiplier != multiplier {
			t.Errorf("round %d is charged as %+v", r.Number, e)
		}
	}
	refused(at(0, 0, 0.3), codes.FailedPrecondition, "rate 0.3", "pays for rate 0.25")
	refused(at(0, 4, 0.25), codes.FailedPrecondition, "rate 0.25", "pays for rate 0.5")
	refused(at(0, 3, 0.25), codes.FailedPrecondition, "entry 3",
		"pays for scores, but the round asks for discriminator")
	refused(at(0, 5, 0.25), codes.FailedPrecondition, "has a plan of 5 entries, but the round uses entry 5")
	refused(at(0, math.MaxUint32, 0.25), codes.FailedPrecondition, "uses entry 4294967295")
	refused(roundtest.Paid(spec, "", roundtest.ScoreRound(spec.Name, 0, roundtest.Units(0, 0), nil)),
		codes.FailedPrecondition, "entry 0", "pays for discriminator, but the round asks for scores")
	paysFor(0, at(0, 0, 0.25), 2)
	refused(at(1, 0, 0.25), codes.ResourceExhausted, "the run's plan has 1", "1 of them are used, and 1 more were "+
		"asked")
	paysFor(3, roundtest.Paid(spec, runspec.Selections, roundtest.ScoreRound(spec.Name, 1, roundtest.Units(0, 0), nil)),
		0)
	paysFor(3, selection(2), 0)
	refused(selection(3), codes.ResourceExhausted, "the run's plan has 2", "2 of them are used, and 1 more were asked")
	paysFor(1, at(3, 1, 0.25), 3)
	refused(at(4, 1, 0.25), codes.ResourceExhausted, "1 of them are used")
	paysFor(2, at(4, 2, 0.25), 2) // the first one's, which is used up
	refused(at(5, 2, 0.25), codes.ResourceExhausted, "1 of them are used")
	refused(at(5, 0, 0.25), codes.ResourceExhausted, "1 of them are used")
	paysFor(4, at(5, 4, 0.5), 3)
	refused(at(6, 4, 0.5), codes.ResourceExhausted, "1 of them are used")
	student.close(t, spec.Name)
	verified, err := ledger.VerifyStrict(strings.NewReader(student.lines(t, spec.Name)))
	testkit.Must(t, err)
	price, err := privacy.Account(plan.Events(), 1e-5)
	testkit.Must(t, err)
	if got := verified.Runs[spec.Name]; got.Releases != charged || !got.Closed ||
		!slices.Equal(got.Used, []int64{1, 1, 1, 2, 1}) || math.Abs(got.Price.Epsilon-price.Epsilon) > 1e-9 {
		t.Errorf("the ledger has %+v", got)
	}
}

// Without the filter pld, too, an entry with a count is used no more often than that, however much budget is left. A
// cheaper entry does not pay in its place.
func TestEntriesAreUsedUpWithoutAPlansPrice(t *testing.T) {
	c := shared(t)
	student := c.student(t)
	d := c.dataset()
	spec, _ := student.open(t, d, roundtest.Asks(roundtest.Histograms(roundtest.Planned(runspec.Votes,
		roundtest.GNMax(20), 5)), roundtest.Planned(runspec.Votes, roundtest.GNMax(2000), 5)))
	n := c.node(t, hello(d, "north", "a", 8), roundtest.Votes(8, roundtest.Alternating))
	student.mustAsk(t, roundtest.VoteRound(spec.Name, 0, 3))
	student.refused(t, roundtest.VoteRound(spec.Name, 1, 3), codes.ResourceExhausted, "the run's plan has 5",
		"3 of them are used, and 3", spec.Name)
	if len(n.rounds) != 1 {
		t.Errorf("the node saw %d rounds", len(n.rounds))
	}
	student.mustAsk(t, roundtest.VoteRound(spec.Name, 1, 2))
	cheap := roundtest.VoteRound(spec.Name, 2, 5)
	cheap.Planned = 1
	if r := student.mustAsk(t, cheap); len(r.GetVotes().GetHistogram()) != 0 { // the entry's own variant
		t.Errorf("released %v", r)
	}
	entries := student.ledger(t, spec.Name)
	for i, want := range [][]privacy.Event{roundtest.Times(3, roundtest.GNMax(20)),
		roundtest.Times(2, roundtest.GNMax(20)), roundtest.Times(5, roundtest.GNMax(2000))} {
		if diff := cmp.Diff(want, entries[i].Events); diff != "" {
			t.Errorf("round %d: %s", i, diff)
		}
	}
}
