package shape

import (
	"crypto/sha256"
	"slices"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/conclave-dp/conclave/internal/aggregator/round"
	"github.com/conclave-dp/conclave/internal/aggregator/roundtest"
	"github.com/conclave-dp/conclave/internal/masking"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/runspec"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// maskedAmong gives a run three sites, one that may collude among them, and a plan.
func maskedAmong(plan ...privacy.Planned) func(*conclavev1.RunSpec) {
	g := masking.Group{Quorum: 3, Colluding: 1}
	for _, site := range []string{"a", "b", "c"} {
		g.Members = append(g.Members, masking.Member{Site: site, Key: sha256.Sum256([]byte(site))})
	}
	return func(s *conclavev1.RunSpec) { s.Masked, s.Plan = g.Wire(), runspec.Of(plan) }
}

// The release is what was opened: a sum unchanged, votes as winners and, if planned, counts rounded to votes. No
// further noise is drawn.
func TestMaskedAnswersAreReleasedAsOpened(t *testing.T) {
	run := mustSpec(t, maskedAmong(roundtest.Planned(runspec.GradientSums, roundtest.Gaussian(2), 0),
		roundtest.Histograms(roundtest.Planned(runspec.Votes, roundtest.GNMax(20), 0)),
		roundtest.Planned(runspec.GradientVotes, roundtest.GNMax(20), 0)))
	answer := func(r *conclavev1.Round, planned uint32, counts ...int64) *conclavev1.Release {
		t.Helper()
		r.Planned = planned
		q, err := parse(r, run)
		testkit.Must(t, err)
		if _, ok := q.(round.Masked); !ok || q.Length() != len(counts) {
			t.Fatalf("%T of %d counts", q, q.Length())
		}
		sum := &conclavev1.WorkRequest{Message: &conclavev1.WorkRequest_Sum{Sum: &conclavev1.Sum{Values: counts}}}
		for _, length := range []int{len(counts) - 1, len(counts) + 1} {
			values := make([]int64, length)
			if _, err := q.Read(&conclavev1.WorkRequest{Message: &conclavev1.WorkRequest_Sum{Sum: &conclavev1.Sum{
				Values: values,
			}}}, 1); err == nil {
				t.Errorf("%d values where %d were asked", length, len(counts))
			}
		}
		if _, err := q.Read(&conclavev1.WorkRequest{}, 1); err == nil {
			t.Error("an answer without values")
		}
		read, err := q.Read(sum, 1)
		testkit.Must(t, err)
		release := new(conclavev1.Release)
		if _, err := q.Answer(nil, read, release); err != nil {
			t.Fatal(err)
		}
		return release
	}
	r := roundtest.GradientRound("r", 1, 1, nil)
	got := answer(r, 0, slices.Repeat([]int64{-5}, int(r.GetSum().GetEntries()))...)
	if sum := got.GetSum(); !slices.Contains(sum.GetValues(), -5) || sum.GetScale() != r.GetSum().GetBound() {
		t.Errorf("released %v", got)
	}
	const vote = masking.VoteSteps
	votes := answer(votesOn(3, 2), 1, 5*vote, 4*vote+vote/2-1, -vote, 3, 7, 7).GetVotes()
	testkit.Same(t, "labels", []int32{0, 1, 0}, votes.GetLabels())
	testkit.Same(t, "counts", []int64{5, 4, -1, 0, 0, 0}, votes.GetHistogram())
	bins := votesOn(1, 3)
	bins.Kind = runspec.GradientVotes
	if votes := answer(bins, 2, 1, 3, 2).GetVotes(); len(votes.GetHistogram()) != 0 || votes.GetLabels()[0] != 1 {
		t.Errorf("released %v", votes)
	}
}

// A run with questions that cannot be masked is not opened, and an unmasked round of a masked run is refused.
func TestWhatCannotBeMaskedIsRefused(t *testing.T) {
	for name, p := range map[string]privacy.Planned{
		"laplace":    roundtest.Planned(runspec.ClassCounts, roundtest.Laplace(1), 1),
		"confident":  roundtest.Planned(runspec.Votes, roundtest.ConfidentMax(10, 5, 5), 0),
		"lnmax":      roundtest.Planned(runspec.Votes, roundtest.LNMax(1), 0),
		"selections": roundtest.Planned(runspec.Scores, roundtest.Exponential(1), 1),
		"a fit":      roundtest.Planned(runspec.Fit, roundtest.Gaussian(2), 1),
	} {
		if err := masking.CheckPlan(privacy.Plan{p}); err == nil {
			t.Errorf("%s can be masked", name)
		}
	}
	run := mustSpec(t, maskedAmong(roundtest.Planned(runspec.GradientSums, roundtest.Gaussian(2), 0)))
	good := func(change func(*conclavev1.Round)) *conclavev1.Round {
		r := roundtest.GradientRound("r", 1, 1, nil)
		change(r)
		return r
	}
	for name, c := range map[string]refused{
		"nothing": {good(func(r *conclavev1.Round) { r.Shape = nil }), run, "asks for no released " +
			"sum", codes.InvalidArgument},
		"a selection": {good(func(r *conclavev1.Round) { r.Selection = &conclavev1.Selection{} }), run,
			"asks for no released sum", codes.InvalidArgument},
		"votes by the price of a sum": {good(func(r *conclavev1.Round) { r.Shape = votesOn(1, 2).Shape }), run,
			"the plan answers gradient-sums with gaussian", codes.InvalidArgument},
		"too small a share": {good(func(r *conclavev1.Round) { r.GetSum().Bound = 1 }), run, "below 8 steps",
			codes.InvalidArgument},
		"another norm": {good(func(r *conclavev1.Round) {
			r.GetSum().Norm = conclavev1.Vector_NORM_EACH
		}), run, "norm", codes.InvalidArgument},
	} {
		c.check(t, name)
	}
}
