package embed

import (
	"github.com/conclave-dp/conclave/internal/embedding"
	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/internal/runspec"
)

// Pipeline is what runs know of this pipeline.
var Pipeline = pipeline.Pipeline{
	Name:            "embed",
	Options:         pipeline.Defaults(DefaultOptions),
	New:             newTraining,
	Asks:            []string{runspec.Embedding},
	Kinds:           []question.Kind{embedding.Sum},
	Model:           pipeline.Network,
	Warm:            &warm,
	NoDiscriminator: "its generator is matched to a sum",
	Words:           pipeline.Words{Answers: "summed features", Baseline: "noise alone"},
}
