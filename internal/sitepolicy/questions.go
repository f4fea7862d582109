package sitepolicy

import (
	"slices"

	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/pipelines"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/runspec"
)

// Kind is a kind of question.
type Kind string

// The kinds of questions, as plans name them.
const (
	ClassCounts      Kind = runspec.ClassCounts
	EmbeddingSum     Kind = runspec.Embedding
	Votes            Kind = runspec.Votes
	GradientVotes    Kind = runspec.GradientVotes
	GradientSum      Kind = runspec.GradientSums
	DiscriminatorSum Kind = runspec.Discriminator
	ScoreSum         Kind = runspec.Scores
	Fit              Kind = runspec.Fit
)

// Pipelines returns the names of all pipelines.
func Pipelines() []string { return slices.Sorted(slices.Values(pipelines.Names(nil))) }

// Stages returns the names of all stages after training, as in plans.
func Stages() (names []string) {
	for _, q := range pipelines.StageQuestions() {
		names = append(names, q.Stage)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// asks reports whether a run with this spec asks questions of a kind, in its training or, if stage is not empty, in
// that stage. The pipeline is a word that the student chose. Restricting the questions to it means that allowing one
// pipeline allows no other.
func (s Spec) asks(k Kind, stage string) bool {
	if !slices.ContainsFunc(s.Plan, func(p privacy.Planned) bool { return p.Kind == string(k) && p.Stage == stage }) {
		return false
	}
	if stage == "" {
		p, _ := pipelines.Named(s.Pipeline)
		return slices.Contains(pipelines.Asks(p), string(k))
	}
	return slices.ContainsFunc(pipelines.StageQuestions(), func(q pipeline.StageQuestion) bool {
		return q.Stage == stage && q.Kind == string(k)
	})
}
