package audit

import (
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/runspec"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// schemaSHA256 stands for a schema that nobody has: nodes without data need none.
const schemaSHA256 = "0000000000000000000000000000000000000000000000000000000000000000"

// unit is the privacy unit of the datasets.
const unit = "record"

func (s *scenario) teachers() uint32 { return uint32(s.votes[0] + s.votes[1]) }

// spec is that of one run with a budget.
func (s *scenario) spec(name, dataset string, epsilon, delta float64) *conclavev1.RunSpec {
	return &conclavev1.RunSpec{
		Name: name, Dataset: dataset, Pipeline: "audit", SchemaSha256: schemaSHA256,
		Epsilon: epsilon, Delta: delta, Unit: unit, Guarantee: "data-independent",
		Teachers: s.teachers(), Quorum: 1, DeadlineSeconds: 60,
		Plan: runspec.Of(privacy.Plan{s.planned, s.cheap()}),
	}
}

// round is one question of a run. Its rows are of no account: the votes on them
// are fixed.
func (s *scenario) round(run string, number uint64) *conclavev1.Round {
	r := &conclavev1.Round{Run: run, Number: number}
	if s.counts() {
		r.Question = &conclavev1.Round_Sum{Sum: &conclavev1.SumQuestion{Statistic: &conclavev1.SumQuestion_ClassCounts{
			ClassCounts: &conclavev1.ClassCounts{Classes: uint32(len(s.units)), Scale: countScale},
		}}}
		return r
	}
	r.Question = &conclavev1.Round_Vote{Vote: &conclavev1.VoteQuestion{
		Teacher: &conclavev1.TeacherSpec{
			Model: conclavev1.TeacherSpec_MODEL_LOGISTIC, Vote: conclavev1.TeacherSpec_VOTE_PLAIN,
			Classes: 1, Features: conclavev1.TeacherSpec_FEATURES_PLAIN,
		},
		Queries:       &conclavev1.Tensor{Shape: []uint32{uint32(s.queries), 1}, Data: make([]byte, 4*s.queries)},
		QueryClasses:  make([]uint32, s.queries),
		AnswerClasses: uint32(len(s.votes)),
	}}
	return r
}
