package shape

import (
	"math"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/conclave-dp/conclave/internal/aggregator/fault"
	"github.com/conclave-dp/conclave/internal/aggregator/round"
	"github.com/conclave-dp/conclave/internal/aggregator/roundtest"
	"github.com/conclave-dp/conclave/internal/aggregator/spec"
	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/internal/ratio/logistic"
	"github.com/conclave-dp/conclave/internal/reducer"
	"github.com/conclave-dp/conclave/internal/runspec"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// parse parses a round's question without cached sums.
func parse(r *conclavev1.Round, run *spec.Spec) (round.Question, error) {
	return Parser(reducer.NewRegistry(logistic.Fit))(r, run,
		func(uint64) (round.Sums, bool) { return round.Sums{}, false })
}

// mustSpec is a valid spec with a change.
func mustSpec(t testing.TB, change func(*conclavev1.RunSpec)) *spec.Spec {
	t.Helper()
	pb := roundtest.Spec()
	change(pb)
	run, err := spec.New(pb)
	testkit.Must(t, err)
	return run
}

// refused is a question, and why a run refuses it.
type refused struct {
	round *conclavev1.Round
	spec  *spec.Spec
	want  string
	code  codes.Code
}

func (r refused) check(t *testing.T, name string) {
	t.Helper()
	_, err := parse(roundtest.Paid(r.spec.PB, "", r.round), r.spec)
	if err == nil || !strings.Contains(err.Error(), r.want) || fault.Code(err) != r.code {
		t.Errorf("%s: got %v (%v), want %v with %q", name, err, fault.Code(err), r.code, r.want)
	}
}

func votesOn(queries, classes uint32) *conclavev1.Round {
	r := roundtest.VoteRound("r", 1, 1)
	r.Shape = &conclavev1.Round_Votes{Votes: &conclavev1.Histogram{Queries: queries, Classes: classes}}
	return r
}

func TestQuestionsAreRefused(t *testing.T) {
	plain := mustSpec(t, func(*conclavev1.RunSpec) {})
	sums := mustSpec(t, roundtest.SumsOf(1.5))
	samples := mustSpec(t, roundtest.SamplesOf(1.5, 0.25, 3))
	counts := roundtest.CountRound("r", 1, 2, 4)
	change := func(f func(*conclavev1.Vector)) *conclavev1.Round { return roundtest.GradientRound("r", 1, 1, f) }
	const invalid, refuses = codes.InvalidArgument, codes.FailedPrecondition
	for name, c := range map[string]refused{
		"nothing": {&conclavev1.Round{Run: "r", Number: 1, Kind: runspec.Votes}, plain, "is empty; set votes",
			invalid},
		"no queries":       {votesOn(0, 2), plain, "asks 0 queries; ask 1 to 65536", invalid},
		"too many queries": {votesOn(maxQueries+1, 2), plain, "asks 65537 queries", invalid},
		"absurd queries":   {votesOn(math.MaxUint32, 2), plain, "asks 4294967295 queries", invalid},
		"no classes":       {votesOn(1, 0), plain, "between 0 classes; use 2 to 256", invalid},
		"one class":        {votesOn(1, 1), plain, "between 1 classes", invalid},
		"257 classes":      {votesOn(1, 257), plain, "between 257 classes", invalid},
		"too many counts": {votesOn(13108, 10), plain, "13108 queries x 10 classes are more than 131072 counts",
			invalid},
		"votes of no price": {votesOn(1, 2), sums, `pays for gradient-sums, but the round asks for votes`, refuses},
		"a sum of no price": {change(nil), plain, `pays for votes, but the round asks for gradient-sums`, refuses},
		"another rate": {roundtest.DiscriminatorRound("r", 1, 2, func(v *conclavev1.Vector) {
			v.Rate = 0.5
		}), samples, "sample of rate 0.5, but entry \"discriminator\" of the plan of run \"r\" pays for rate 0.25",
			refuses},
		"all for a sample": {roundtest.DiscriminatorRound("r", 1, 2, func(v *conclavev1.Vector) {
			v.Rate = 1
		}), samples, "pays for rate 0.25", refuses},
		"a sample for all": {change(func(v *conclavev1.Vector) { v.Rate = 0.25 }), sums, "pays for rate 1", refuses},
		"gaussian of each": {change(func(v *conclavev1.Vector) {
			v.Norm = conclavev1.Vector_NORM_EACH
		}), sums, "gaussian noise, which is for sums whose bound is of norm [NORM_L1 NORM_L2]", invalid},
		"laplace of L2": {roundtest.Sum(counts, roundtest.OfUnits(2), nil), plain,
			"laplace noise, which is for sums whose bound is of norm [NORM_L1]", invalid},
		"too wide a noise": {change(func(v *conclavev1.Vector) {
			v.Bound = spec.MaxBound
		}), mustSpec(t, roundtest.SumsOf(1<<10)), `run "r": gaussian sum`, invalid},
		"too wide a laplace": {roundtest.CountRound("r", 1, 2, spec.MaxBound), mustSpec(t, roundtest.Shares(1e-9)),
			"class-counts with a bound of 1048576 steps", invalid},
		"votes by a sum": {votesOn(1, 2),
			mustSpec(t, roundtest.Trains(roundtest.Planned(runspec.Votes, roundtest.Gaussian(2), 0))),
			"the plan answers votes with gaussian", invalid},
		"a sum by votes": {change(nil),
			mustSpec(t, roundtest.Trains(roundtest.Planned(runspec.GradientSums, roundtest.GNMax(20), 0))),
			"the plan answers gradient-sums with gnmax", invalid},
		"a sum by selection": {change(nil),
			mustSpec(t, roundtest.Trains(roundtest.Planned(runspec.GradientSums, roundtest.Exponential(1), 3))),
			"the plan answers gradient-sums with exponential", invalid},
	} {
		c.check(t, name)
	}
	pass := change(nil)
	pass.Serves = []byte{1}
	refused{pass, sums, "leave it out", invalid}.check(t, "a pass")
	beyond := roundtest.VoteRound("r", 1, 1)
	beyond.Planned = 2
	if _, err := parse(beyond, plain); fault.Code(err) != refuses || !strings.Contains(err.Error(), "uses entry 2") {
		t.Errorf("an entry beyond the plan: %v", err)
	}
	for name, bad := range roundtest.BadVectors() {
		refused{change(bad.Change), sums, bad.Want, invalid}.check(t, name)
	}
	selections := mustSpec(t, roundtest.SelectionsOf(1, 3))
	for name, bad := range roundtest.BadSelections() {
		refused{roundtest.ScoreRound("r", 1, []int64{0, 0}, bad.Change), selections, bad.Want, invalid}.check(t, name)
	}
	for name, bad := range roundtest.BadVectors() {
		r := roundtest.ScoreRound("r", 1, []int64{0, 0}, func(r *conclavev1.Round) { bad.Change(r.GetSum()) })
		refused{r, selections, bad.Want, invalid}.check(t, "to select by: "+name)
	}
	refused{
		roundtest.ScoreRound("r", 1, []int64{0, 0}, nil),
		mustSpec(t, roundtest.Asks(roundtest.Planned(runspec.Scores, roundtest.Gaussian(2), 0))),
		"use one of [exponential]",
		invalid,
	}.check(
		t,
		"a selection by gaussian noise",
	)
	refused{
		roundtest.SelectionRound("r", 1, []int64{0, 0}, nil),
		selections,
		"the sums of round 0 of run \"r\" are not cached",
		codes.NotFound,
	}.check(
		t,
		"sums that are not there",
	)
}

// A fit's parameters determine its shape.
func TestFitsAreRefused(t *testing.T) {
	gaussian := mustSpec(t, roundtest.FitOf(roundtest.Gaussian(2)))
	laplace := mustSpec(t, roundtest.FitOf(roundtest.Laplace(2)))
	const invalid = codes.InvalidArgument
	iterate := roundtest.FitRound("r", 1, question.L2, nil)
	iterate.Params = question.Marshal(&conclavev1.LogisticSum{Coefficients: make([]float64, 3), Bound: 1 << 16})
	refused{iterate, gaussian, "install matching versions", invalid}.check(t, "the sums of an iterate, without noise")
	wide := roundtest.FitRound("r", 1, question.L2, func(q *conclavev1.Fit) {
		q.Synthetic, q.Features.Clip, q.Lambda = roundtest.Tensor(1, 200), 100, 2
	})
	refused{wide, mustSpec(t, roundtest.GammaOf(1)), "gaussian", invalid}.check(t, "noise that there is not")
	for name, bad := range roundtest.BadFits() {
		refused{roundtest.FitRound("r", 1, question.L2, bad.Change), gaussian, bad.Want, invalid}.check(t, name)
	}
	for name, c := range map[string]struct {
		norm   question.Norm
		change func(*conclavev1.Round)
		spec   *spec.Spec
		want   string
	}{
		"another bound": {question.L2, func(r *conclavev1.Round) {
			r.GetSum().Bound--
		}, gaussian, "its parameters give 3 entries"},
		"the other bound": {question.L2, func(r *conclavev1.Round) {
			r.GetSum().Norm = conclavev1.Vector_NORM_L1
		}, gaussian, "its parameters give"},
		"more entries": {question.L2, func(r *conclavev1.Round) {
			r.GetSum().Entries++
		}, gaussian, "its parameters give"},
		"of each": {question.L2, func(r *conclavev1.Round) {
			r.GetSum().Norm = conclavev1.Vector_NORM_EACH
		}, gaussian, "its parameters give"},
		"over teachers": {question.L2, func(r *conclavev1.Round) {
			r.GetSum().Per = conclavev1.Vector_PER_TEACHER
		}, gaussian, "its parameters give"},
		"no shape": {question.L2, func(r *conclavev1.Round) { r.Shape = nil }, gaussian, "a sum of 0 entries"},
		"votes": {question.L2, func(r *conclavev1.Round) {
			r.Shape = votesOn(1, 2).Shape
		}, gaussian, "a sum of 0 entries"},
		"a selection": {question.L2, func(r *conclavev1.Round) {
			r.Selection = &conclavev1.Selection{}
		}, gaussian, "needs several passes; ask it in a round of its own"},
		"laplace of L2": {question.L2, func(*conclavev1.Round) {}, laplace,
			"laplace noise, which is for sums whose bound is of norm [NORM_L1]"},
	} {
		r := roundtest.FitRound("r", 1, c.norm, nil)
		c.change(r)
		refused{r, c.spec, c.want, invalid}.check(t, name)
	}
	for name, c := range map[string]struct {
		norm question.Norm
		spec *spec.Spec
	}{
		"gaussian": {question.L2, gaussian}, "laplace": {question.L1, laplace},
		"norm-gamma": {question.L2, mustSpec(t, roundtest.GammaOf(2))},
	} {
		q, err := parse(roundtest.FitRound("r", 1, c.norm, nil), c.spec)
		if err != nil || q.Length() != roundtest.FitWidth || q.Queries() != 1 {
			t.Errorf("%s: %+v, %v", name, q, err)
		}
	}
}
