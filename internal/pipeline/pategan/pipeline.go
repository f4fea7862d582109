package pategan

import (
	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/internal/runspec"
	"github.com/conclave-dp/conclave/internal/teachers"
)

// Pipeline is what runs know of this pipeline.
var Pipeline = pipeline.Pipeline{
	Name:       "pategan",
	Options:    pipeline.Defaults(DefaultOptions),
	New:        newTraining,
	Asks:       []string{runspec.ClassCounts, runspec.Votes},
	Kinds:      []question.Kind{teachers.Votes},
	Model:      pipeline.Network,
	Teachers:   true,
	WarmShare:  0.7,
	TablesOnly: true,
	TakesWarm:  true,
	Words:      pipeline.Words{Answers: "votes", Baseline: "coin flips"},
}

// Kept is how many discriminators are kept for the stages after the training.
func (o Options) Kept() int { return o.Student.Keep }
