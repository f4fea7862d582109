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
	"github.com/conclave-dp/conclave/internal/runspec"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// parse reads what a round asks, without sums that are cached.
func parse(r *conclavev1.Round, run *spec.Spec, allowCoin bool) (round.Question, error) {
	return Parser(allowCoin)(r, run, func(uint64) (round.Sums, bool) { return round.Sums{}, false })
}

// mustSpec is a good run with a change.
func mustSpec(t testing.TB, change func(*conclavev1.RunSpec)) *spec.Spec {
	t.Helper()
	pb := roundtest.Spec()
	change(pb)
	run, err := spec.New(pb)
	testkit.Must(t, err)
	return run
}

func TestParseQuestionRefuses(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(-1))
	vote := func(change func(q *conclavev1.VoteQuestion)) *conclavev1.Round {
		q := roundtest.Vote(5)
		change(q)
		return &conclavev1.Round{Run: "r", Number: 1, Question: &conclavev1.Round_Vote{Vote: q}}
	}
	sum := func(classes uint32, scale uint64) *conclavev1.Round {
		return roundtest.CountRound("r", 1, classes, scale)
	}
	run, err := spec.New(roundtest.Spec())
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		round *conclavev1.Round
		want  string
		code  codes.Code
	}{
		"no question": {&conclavev1.Round{Run: "r", Number: 1}, "asks nothing", codes.InvalidArgument},
		"no teacher": {vote(func(q *conclavev1.VoteQuestion) { q.Teacher = nil }), "teacher.model",
			codes.InvalidArgument},
		"unknown model": {vote(func(q *conclavev1.VoteQuestion) { q.Teacher.Model = 9 }), "teacher.model",
			codes.InvalidArgument},
		"hidden without units": {vote(func(q *conclavev1.VoteQuestion) { q.Teacher.Model = conclavev1.TeacherSpec_MODEL_HIDDEN }), "teacher.hidden", codes.InvalidArgument},
		"no vote kind": {vote(func(q *conclavev1.VoteQuestion) { q.Teacher.Vote = 0 }),
			"use relative, calibrated, plain or gradient", codes.InvalidArgument},
		"coin": {vote(func(q *conclavev1.VoteQuestion) { q.Teacher.Vote = conclavev1.TeacherSpec_VOTE_COIN }),
			"coin votes", codes.FailedPrecondition},
		"no classes": {vote(func(q *conclavev1.VoteQuestion) { q.Teacher.Classes = 0 }), "teacher.classes",
			codes.InvalidArgument},
		"learning rate": {vote(func(q *conclavev1.VoteQuestion) { q.Teacher.LearningRate = nan }),
			"learning_rate", codes.InvalidArgument},
		"weight decay": {vote(func(q *conclavev1.VoteQuestion) { q.Teacher.WeightDecay = -1 }), "weight_decay",
			codes.InvalidArgument},
		"one answer class": {vote(func(q *conclavev1.VoteQuestion) { q.AnswerClasses = 1 }), "answer_classes",
			codes.InvalidArgument},
		"257 answer classes": {vote(func(q *conclavev1.VoteQuestion) { q.AnswerClasses = 257 }), "answer_classes",
			codes.InvalidArgument},
		"no queries": {vote(func(q *conclavev1.VoteQuestion) { q.Queries = nil }), "about 0 records",
			codes.InvalidArgument},
		"too many queries": {vote(func(q *conclavev1.VoteQuestion) {
			q.Queries, q.QueryClasses = roundtest.Tensor(maxQueries+1, 3), make([]uint32, maxQueries+1)
		}), "about 65537 records", codes.InvalidArgument},
		"flat tensor": {vote(func(q *conclavev1.VoteQuestion) { q.Queries.Shape = []uint32{15} }),
			"1 dimensions", codes.InvalidArgument},
		"no features": {vote(func(q *conclavev1.VoteQuestion) { q.Queries.Shape = []uint32{5, 0} }),
			"0 features", codes.InvalidArgument},
		"short tensor": {vote(func(q *conclavev1.VoteQuestion) { q.Queries.Data = q.Queries.Data[:59] }),
			"59 bytes", codes.InvalidArgument},
		"overflowing shape": {vote(func(q *conclavev1.VoteQuestion) {
			q.Queries.Shape = []uint32{math.MaxUint32,
				maxFeatures}
		}), "holds 60 bytes", codes.InvalidArgument},
		"NaN in queries": {vote(func(q *conclavev1.VoteQuestion) {
			q.Queries = roundtest.Tensor(5, 3, 0, 0, 0, 0,
				nan)
		}), "row 1, feature 1", codes.InvalidArgument},
		"infinite training": {vote(func(q *conclavev1.VoteQuestion) { q.Training = roundtest.Tensor(4, 3, inf) }),
			"row 0, feature 0", codes.InvalidArgument},
		"other features": {vote(func(q *conclavev1.VoteQuestion) { q.Training = roundtest.Tensor(4, 2) }),
			"must be equal", codes.InvalidArgument},
		"class ids missing": {vote(func(q *conclavev1.VoteQuestion) { q.QueryClasses = q.QueryClasses[1:] }),
			"4 class ids for 5", codes.InvalidArgument},
		"class out of range": {vote(func(q *conclavev1.VoteQuestion) { q.TrainingClasses[2] = 2 }), "class 2 of row 2",
			codes.InvalidArgument},
		"no statistic": {&conclavev1.Round{Run: "r", Number: 1,
			Question: &conclavev1.Round_Sum{Sum: &conclavev1.SumQuestion{}}},
			"asks nothing; set vote, selection, fit, or sum with class_counts", codes.InvalidArgument},
		"counts of nothing": {sum(0, 1), "classes", codes.InvalidArgument},
		"no scale":          {sum(2, 0), "scale", codes.InvalidArgument},
		"absurd scale":      {sum(2, 1<<33), "scale", codes.InvalidArgument},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parse(c.round, run, true)
			if err == nil || !strings.Contains(err.Error(), c.want) || fault.Code(err) != c.code {
				t.Errorf("got %v (%v), want %v with %q", err, fault.Code(err), c.code, c.want)
			}
		})
	}

	t.Run("good", func(t *testing.T) {
		q, err := parse(vote(func(*conclavev1.VoteQuestion) {}), run, false)
		if err != nil || q.Length() != 10 {
			t.Errorf("got %v, %v", q, err)
		}
	})
	t.Run("class counts without a price", func(t *testing.T) {
		free := mustSpec(t, roundtest.Asks(roundtest.Planned(runspec.Votes, roundtest.GNMax(20), 0)))
		for entry, want := range []string{"pays for votes, and the round asks for class-counts",
			"has a plan of 1 entries"} {
			r := sum(2, 1)
			r.Planned = uint32(entry)
			_, err := parse(r, free, false)
			if fault.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v", err)
			}
		}
	})
}

func TestCoinVotesNeedTheOptionAndTheRun(t *testing.T) {
	q := roundtest.Vote(3)
	q.Teacher.Vote = conclavev1.TeacherSpec_VOTE_COIN
	coin := &conclavev1.Round{Run: "r", Question: &conclavev1.Round_Vote{Vote: q}}
	for _, c := range []struct{ option, run, want bool }{{true, true, true}, {true, false, false}, {false, true, false},
		{false, false, false}} {
		pb := roundtest.Spec()
		pb.CoinVotes = c.run
		run, err := spec.New(pb)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parse(coin, run, c.option); (err == nil) != c.want {
			t.Errorf("option %v, run %v: got %v", c.option, c.run, err)
		}
	}
}
