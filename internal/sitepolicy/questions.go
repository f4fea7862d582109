package sitepolicy

import (
	"maps"
	"slices"

	"github.com/conclave-dp/conclave/internal/privacy"
)

// Kind is what a round asks of a node.
type Kind string

// The kinds of questions.
const (
	ClassCounts      Kind = "class-counts"
	EmbeddingSum     Kind = "embedding"
	Votes            Kind = "votes"
	GradientVotes    Kind = "gradient-votes"
	GradientSum      Kind = "gradient-sums"
	DiscriminatorSum Kind = "discriminator"
	ScoreSum         Kind = "scores"
	Fit              Kind = "fit"
)

// pipelines say what the students of a pipeline ask. A run's pipeline is a word that its
// student writes: what is asked is held to it, so that allowing one allows no other.
var pipelines = map[string][]Kind{
	"pategan": {ClassCounts, EmbeddingSum, Votes},
	"gpate":   {ClassCounts, EmbeddingSum, GradientVotes, GradientSum},
	"dpgan":   {ClassCounts, EmbeddingSum, DiscriminatorSum},
	"embed":   {EmbeddingSum},
}

// stages say what is asked after training; the names are those of a run's plan.
var stages = map[string]Kind{
	"selections": ScoreSum,
	"fit":        Fit,
	"sampled":    DiscriminatorSum,
}

// Pipelines returns the names of all pipelines.
func Pipelines() []string { return slices.Sorted(maps.Keys(pipelines)) }

// Stages returns the names of all stages.
func Stages() []string { return slices.Sorted(maps.Keys(stages)) }

// asks is whether a run of these terms asks questions of a kind, in its training or, where
// stage is not empty, in a stage after it.
func (s Spec) asks(k Kind, stage string) bool {
	if !slices.ContainsFunc(s.Plan, func(p privacy.Planned) bool { return p.Kind == string(k) && p.Stage == stage }) {
		return false
	}
	if stage == "" {
		return slices.Contains(pipelines[s.Pipeline], k)
	}
	return stages[stage] == k
}
