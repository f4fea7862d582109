package audit

import (
	"github.com/conclave-dp/conclave/internal/classcounts"
	"github.com/conclave-dp/conclave/internal/masking"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/internal/runspec"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// unit is the privacy unit of the datasets.
const unit = "record"

func (s *scenario) teachers() uint32 {
	if s.masked != nil {
		return uint32(len(s.sites())) // one each
	}
	return uint32(s.votes[0] + s.votes[1])
}

// spec is the spec of a run, which is masked if there is a group.
func (s *scenario) spec(name, dataset string, group *masking.Group, epsilon, delta float64) *conclavev1.RunSpec {
	spec := &conclavev1.RunSpec{
		Name: name, Dataset: dataset, Pipeline: "audit", SchemaSha256: schemaSHA256,
		Epsilon: epsilon, Delta: delta, Unit: unit, Guarantee: "data-independent", Overlap: uint32(s.overlap),
		Teachers: s.teachers(), Quorum: 1, DeadlineSeconds: 60,
		Plan: runspec.Of(privacy.Plan{s.planned, s.cheap()}),
	}
	if group != nil {
		spec.Masked = group.Wire()
	}
	return spec
}

// round is one question of a run. Its records do not matter, because the votes are fixed.
func (s *scenario) round(run string, number uint64) *conclavev1.Round {
	if s.counts() {
		classes := len(s.units)
		r := question.Ask(s.planned.Kind, &conclavev1.ClassCounts{Classes: uint32(classes), Scale: countScale},
			classcounts.Shape(classes, countScale))
		r.Run, r.Number = run, number
		return r
	}
	r := &conclavev1.Round{Run: run, Number: number, Kind: s.planned.Kind}
	r.Shape = &conclavev1.Round_Votes{Votes: &conclavev1.Histogram{
		Queries: uint32(s.queries), Classes: uint32(len(s.votes)),
	}}
	return r
}
