package aggregator

import (
	"encoding/binary"
	"math"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/runspec"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

func tensor(rows, columns int, values ...float32) *conclavev1.Tensor {
	data := make([]byte, 0, 4*rows*columns)
	for i := range rows * columns {
		v := float32(0.25)
		if i < len(values) {
			v = values[i]
		}
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(v))
	}
	return &conclavev1.Tensor{Shape: []uint32{uint32(rows), uint32(columns)}, Data: data}
}

func goodVote(queries int) *conclavev1.VoteQuestion {
	return &conclavev1.VoteQuestion{
		Teacher: &conclavev1.TeacherSpec{
			Model: conclavev1.TeacherSpec_MODEL_LOGISTIC, Vote: conclavev1.TeacherSpec_VOTE_RELATIVE,
			Classes: 2, Steps: 1, Batch: 4, LearningRate: 0.1, Features: conclavev1.TeacherSpec_FEATURES_PLAIN,
		},
		Training:        tensor(4, 3),
		TrainingClasses: []uint32{0, 1, 0, 1},
		Queries:         tensor(queries, 3),
		QueryClasses:    make([]uint32, queries),
		AnswerClasses:   2,
	}
}

func countRound(run string, number uint64, classes uint32, scale uint64) *conclavev1.Round {
	return &conclavev1.Round{Run: run, Number: number, Planned: 1, Question: &conclavev1.Round_Sum{Sum: &conclavev1.SumQuestion{
		Statistic: &conclavev1.SumQuestion_ClassCounts{ClassCounts: &conclavev1.ClassCounts{Classes: classes, Scale: scale}}}}}
}

// goodSpec is a run of votes, as many as its budget admits, and of class counts once.
func goodSpec() *conclavev1.RunSpec {
	return &conclavev1.RunSpec{
		Name: "r", Dataset: "d", Pipeline: "pategan", SchemaSha256: testSchema, Epsilon: 10, Delta: 1e-5,
		Unit: "record", Guarantee: "data-independent", Teachers: 8, Quorum: 0.5, DeadlineSeconds: 5,
		Plan: runspec.Of(privacy.Plan{
			histograms(planned(runspec.Votes, gnMax(20), 0)), planned(runspec.ClassCounts, laplace(0.1), 1),
		}),
	}
}

const testSchema = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"

// parse reads a round as it comes from a student who says it is round key.
func parse(t *testing.T, key roundKey, round *conclavev1.Round, spec *runSpec, allowCoin bool) (question, error) {
	t.Helper()
	raw, err := proto.Marshal(round)
	if err != nil {
		t.Fatal(err)
	}
	var a assembly
	testkit.Must(t, a.add(&conclavev1.RoundPart{Run: key.run, Round: key.number, Parts: 1, Data: raw}))
	p, err := a.payload()
	if err != nil {
		return nil, err
	}
	return parseQuestion(p, &run{spec: spec}, allowCoin)
}

func TestParseQuestionRefuses(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(-1))
	vote := func(change func(q *conclavev1.VoteQuestion)) *conclavev1.Round {
		q := goodVote(5)
		change(q)
		return &conclavev1.Round{Run: "r", Number: 1, Question: &conclavev1.Round_Vote{Vote: q}}
	}
	sum := func(classes uint32, scale uint64) *conclavev1.Round { return countRound("r", 1, classes, scale) }
	spec, err := newRunSpec(goodSpec())
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		round *conclavev1.Round
		want  string
		code  codes.Code
	}{
		"another run":          {&conclavev1.Round{Run: "x", Number: 1}, `round 1 of run "x"`, codes.InvalidArgument},
		"another number":       {&conclavev1.Round{Run: "r", Number: 2}, `round 2 of run "r"`, codes.InvalidArgument},
		"no question":          {&conclavev1.Round{Run: "r", Number: 1}, "asks nothing", codes.InvalidArgument},
		"no teacher":           {vote(func(q *conclavev1.VoteQuestion) { q.Teacher = nil }), "teacher.model", codes.InvalidArgument},
		"unknown model":        {vote(func(q *conclavev1.VoteQuestion) { q.Teacher.Model = 9 }), "teacher.model", codes.InvalidArgument},
		"hidden without units": {vote(func(q *conclavev1.VoteQuestion) { q.Teacher.Model = conclavev1.TeacherSpec_MODEL_HIDDEN }), "teacher.hidden", codes.InvalidArgument},
		"no vote kind":         {vote(func(q *conclavev1.VoteQuestion) { q.Teacher.Vote = 0 }), "use relative, calibrated, plain or gradient", codes.InvalidArgument},
		"coin":                 {vote(func(q *conclavev1.VoteQuestion) { q.Teacher.Vote = conclavev1.TeacherSpec_VOTE_COIN }), "coin votes", codes.FailedPrecondition},
		"no classes":           {vote(func(q *conclavev1.VoteQuestion) { q.Teacher.Classes = 0 }), "teacher.classes", codes.InvalidArgument},
		"learning rate":        {vote(func(q *conclavev1.VoteQuestion) { q.Teacher.LearningRate = nan }), "learning_rate", codes.InvalidArgument},
		"weight decay":         {vote(func(q *conclavev1.VoteQuestion) { q.Teacher.WeightDecay = -1 }), "weight_decay", codes.InvalidArgument},
		"one answer class":     {vote(func(q *conclavev1.VoteQuestion) { q.AnswerClasses = 1 }), "answer_classes", codes.InvalidArgument},
		"257 answer classes":   {vote(func(q *conclavev1.VoteQuestion) { q.AnswerClasses = 257 }), "answer_classes", codes.InvalidArgument},
		"no queries":           {vote(func(q *conclavev1.VoteQuestion) { q.Queries = nil }), "about 0 records", codes.InvalidArgument},
		"too many queries": {vote(func(q *conclavev1.VoteQuestion) {
			q.Queries, q.QueryClasses = tensor(maxQueries+1, 3), make([]uint32, maxQueries+1)
		}), "about 65537 records", codes.InvalidArgument},
		"flat tensor":        {vote(func(q *conclavev1.VoteQuestion) { q.Queries.Shape = []uint32{15} }), "1 dimensions", codes.InvalidArgument},
		"no features":        {vote(func(q *conclavev1.VoteQuestion) { q.Queries.Shape = []uint32{5, 0} }), "0 features", codes.InvalidArgument},
		"short tensor":       {vote(func(q *conclavev1.VoteQuestion) { q.Queries.Data = q.Queries.Data[:59] }), "59 bytes", codes.InvalidArgument},
		"overflowing shape":  {vote(func(q *conclavev1.VoteQuestion) { q.Queries.Shape = []uint32{math.MaxUint32, maxFeatures} }), "holds 60 bytes", codes.InvalidArgument},
		"NaN in queries":     {vote(func(q *conclavev1.VoteQuestion) { q.Queries = tensor(5, 3, 0, 0, 0, 0, nan) }), "row 1, feature 1", codes.InvalidArgument},
		"infinite training":  {vote(func(q *conclavev1.VoteQuestion) { q.Training = tensor(4, 3, inf) }), "row 0, feature 0", codes.InvalidArgument},
		"other features":     {vote(func(q *conclavev1.VoteQuestion) { q.Training = tensor(4, 2) }), "must be equal", codes.InvalidArgument},
		"class ids missing":  {vote(func(q *conclavev1.VoteQuestion) { q.QueryClasses = q.QueryClasses[1:] }), "4 class ids for 5", codes.InvalidArgument},
		"class out of range": {vote(func(q *conclavev1.VoteQuestion) { q.TrainingClasses[2] = 2 }), "class 2 of row 2", codes.InvalidArgument},
		"no statistic": {&conclavev1.Round{Run: "r", Number: 1, Question: &conclavev1.Round_Sum{Sum: &conclavev1.SumQuestion{}}},
			"asks nothing; set vote, selection, fit, or sum with class_counts", codes.InvalidArgument},
		"counts of nothing": {sum(0, 1), "classes", codes.InvalidArgument},
		"no scale":          {sum(2, 0), "scale", codes.InvalidArgument},
		"absurd scale":      {sum(2, 1<<33), "scale", codes.InvalidArgument},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parse(t, roundKey{"r", 1}, c.round, spec, true)
			if err == nil || !strings.Contains(err.Error(), c.want) || codeOf(err) != c.code {
				t.Errorf("got %v (%v), want %v with %q", err, codeOf(err), c.code, c.want)
			}
		})
	}

	t.Run("not a message", func(t *testing.T) {
		a := assembly{key: roundKey{"r", 1}, parts: []*conclavev1.RoundPart{part(0, 1, "\xff")}}
		if _, err := a.payload(); codeOf(err) != codes.InvalidArgument {
			t.Errorf("got %v", err)
		}
	})
	t.Run("good", func(t *testing.T) {
		q, err := parse(t, roundKey{"r", 1}, vote(func(*conclavev1.VoteQuestion) {}), spec, false)
		if err != nil || q.length() != 10 {
			t.Errorf("got %v, %v", q, err)
		}
	})
	t.Run("class counts without a price", func(t *testing.T) {
		free := mustSpec(t, asks(planned(runspec.Votes, gnMax(20), 0)))
		for entry, want := range []string{"pays for votes, and the round asks for class-counts", "has a plan of 1 entries"} {
			r := sum(2, 1)
			r.Planned = uint32(entry)
			_, err := parse(t, roundKey{"r", 1}, r, free, false)
			if codeOf(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v", err)
			}
		}
	})
}

func TestCoinVotesNeedTheOptionAndTheRun(t *testing.T) {
	q := goodVote(3)
	q.Teacher.Vote = conclavev1.TeacherSpec_VOTE_COIN
	round := &conclavev1.Round{Run: "r", Question: &conclavev1.Round_Vote{Vote: q}}
	for _, c := range []struct{ option, run, want bool }{{true, true, true}, {true, false, false}, {false, true, false}, {false, false, false}} {
		pb := goodSpec()
		pb.CoinVotes = c.run
		spec, err := newRunSpec(pb)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parse(t, roundKey{run: "r"}, round, spec, c.option); (err == nil) != c.want {
			t.Errorf("option %v, run %v: got %v", c.option, c.run, err)
		}
	}
}

func TestRunSpecRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		change func(s *conclavev1.RunSpec)
		want   string
	}{
		"no name":           {func(s *conclavev1.RunSpec) { s.Name = "" }, "name"},
		"slash in the name": {func(s *conclavev1.RunSpec) { s.Name = "a/b" }, "name"},
		"epsilon 0":         {func(s *conclavev1.RunSpec) { s.Epsilon = 0 }, "epsilon"},
		"epsilon NaN":       {func(s *conclavev1.RunSpec) { s.Epsilon = math.NaN() }, "epsilon"},
		"delta 1":           {func(s *conclavev1.RunSpec) { s.Delta = 1 }, "delta"},
		"data-dependent":    {func(s *conclavev1.RunSpec) { s.Guarantee = "data-dependent" }, "data-independent"},
		"no guarantee":      {func(s *conclavev1.RunSpec) { s.Guarantee = "" }, "data-independent"},
		"no teachers":       {func(s *conclavev1.RunSpec) { s.Teachers = 0 }, "teachers"},
		"quorum 0":          {func(s *conclavev1.RunSpec) { s.Quorum = 0 }, "quorum"},
		"quorum above 1":    {func(s *conclavev1.RunSpec) { s.Quorum = 1.01 }, "quorum"},
		"quorum NaN":        {func(s *conclavev1.RunSpec) { s.Quorum = math.NaN() }, "quorum"},
		"no deadline":       {func(s *conclavev1.RunSpec) { s.DeadlineSeconds = 0 }, "deadline_seconds"},
		"endless deadline":  {func(s *conclavev1.RunSpec) { s.DeadlineSeconds = math.Inf(1) }, "deadline_seconds"},
		"negative share":    {shares(-1), "plan, entry 1: laplace event: epsilon is -1"},
		"no plan":           {asks(), "plan has 0 entries"},
		"no mechanism":      {func(s *conclavev1.RunSpec) { s.Plan[0].Mechanism = nil }, "plan, entry 0: kind"},
		"no noise":          {func(s *conclavev1.RunSpec) { s.Plan[0].Mechanism.Sigma = 0 }, "plan, entry 0: gnmax event: sigma is 0"},
		"unknown filter":    {func(s *conclavev1.RunSpec) { s.Filter = "zcdp" }, "filter"},
	} {
		t.Run(name, func(t *testing.T) {
			pb := goodSpec()
			c.change(pb)
			_, err := newRunSpec(pb)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
}

func TestQuorumRoundsUp(t *testing.T) {
	for _, c := range []struct {
		share    float64
		teachers uint32
		want     uint32
	}{{0.5, 8, 4}, {0.5, 9, 5}, {0.7, 10, 7}, {0.1, 30, 3}, {1, 7, 7}, {1e-9, 5, 1}, {0.999999, 3, 3}} {
		if got := quorumOf(c.share, c.teachers); got != c.want {
			t.Errorf("%v of %d: got %d, want %d", c.share, c.teachers, got, c.want)
		}
	}
}
