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

func (s *scenario) spec(name, dataset string, epsilon, delta float64) *conclavev1.RunSpec {
	return &conclavev1.RunSpec{
		Name: name, Dataset: dataset, Pipeline: "audit", SchemaSha256: schemaSHA256,
		Epsilon: epsilon, Delta: delta, Unit: unit, Guarantee: "data-independent",
		Teachers: s.teachers(), Quorum: 1, DeadlineSeconds: 60,
		Plan: runspec.Of(privacy.Plan{s.planned, s.cheap()}),
	}
}

// round is one question of a run. What else nodes would be asked is of no account: their
// answers are fixed.
func (s *scenario) round(run string, number uint64) *conclavev1.Round {
	r := &conclavev1.Round{Run: run, Number: number, Kind: s.planned.Kind}
	if s.counts() {
		r.Shape = &conclavev1.Round_Sum{Sum: &conclavev1.Vector{
			Entries: uint32(len(s.units)), Bound: countScale, Norm: conclavev1.Vector_NORM_L1,
			Per: conclavev1.Vector_PER_UNIT, Rate: 1, Counts: true,
		}}
		return r
	}
	r.Shape = &conclavev1.Round_Votes{Votes: &conclavev1.Histogram{
		Queries: uint32(s.queries), Classes: uint32(len(s.votes)),
	}}
	return r
}
