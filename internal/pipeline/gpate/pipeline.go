package gpate

import (
	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/internal/runspec"
	"github.com/conclave-dp/conclave/internal/teachers"
)

// Pipeline is what runs know of this pipeline.
var Pipeline = pipeline.Pipeline{
	Name:            "gpate",
	Options:         pipeline.Defaults(DefaultOptions),
	New:             newTraining,
	Asks:            []string{runspec.ClassCounts, runspec.GradientVotes, runspec.GradientSums},
	Kinds:           []question.Kind{teachers.GradientVotes, teachers.GradientSum},
	Model:           pipeline.Network,
	Teachers:        true,
	NoDiscriminator: "its student learns from gradients and has none",
	TakesWarm:       true,
	Words:           pipeline.Words{Answers: "gradients", Baseline: "coin flips"},
}
