package sitepolicy

import (
	"maps"
	"slices"
)

// Kind is what a round asks of a node.
type Kind string

// The kinds of questions.
const (
	ClassCounts      Kind = "class counts"
	EmbeddingSum     Kind = "embedding sum"
	Votes            Kind = "votes"
	GradientVotes    Kind = "gradient votes"
	GradientSum      Kind = "gradient sum"
	DiscriminatorSum Kind = "discriminator sum"
	ScoreSum         Kind = "score sum"
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

// stages say what is asked after training; the names are those of the fields of a
// run's spec that pay for them.
var stages = map[string]Kind{
	"selections": ScoreSum,
	"fit":        Fit,
	"sampled":    DiscriminatorSum,
}

// Pipelines returns the names of all pipelines.
func Pipelines() []string { return slices.Sorted(maps.Keys(pipelines)) }

// Stages returns the names of all stages.
func Stages() []string { return slices.Sorted(maps.Keys(stages)) }

// asks is whether a run of these terms asks questions of a kind.
func (s Spec) asks(k Kind) bool {
	if slices.Contains(pipelines[s.Pipeline], k) {
		return true
	}
	return slices.ContainsFunc(s.Stages, func(stage string) bool { return stages[stage] == k })
}
