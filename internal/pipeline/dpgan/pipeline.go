package dpgan

import (
	"github.com/conclave-dp/conclave/internal/discriminator"
	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/internal/runspec"
)

// Pipeline is what runs know of this pipeline.
var Pipeline = pipeline.Pipeline{
	Name:      "dpgan",
	Options:   pipeline.Defaults(DefaultOptions),
	New:       newTraining,
	Asks:      []string{runspec.ClassCounts, runspec.Discriminator},
	Kinds:     []question.Kind{discriminator.GradientSum},
	Model:     pipeline.Network,
	WarmShare: 0.7,
	TakesWarm: true,
	Words:     pipeline.Words{Answers: "gradients", Baseline: "noise alone"},
}

// Kept is how many discriminators are kept for the stages after the training.
func (o Options) Kept() int { return o.Student.Keep }
