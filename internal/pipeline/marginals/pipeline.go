package marginals

import "github.com/conclave-dp/conclave/internal/pipeline"

// Pipeline is what runs know of this pipeline.
var Pipeline = pipeline.Pipeline{
	Name:            "marginals",
	Options:         pipeline.Defaults(DefaultOptions),
	New:             newTraining,
	Asks:            []string{columnsKind, pairsKind},
	Kinds:           kinds,
	Model:           modelKind,
	TablesOnly:      true,
	Constraints:     true,
	NoDiscriminator: "it fits tables and trains no network",
	Words:           pipeline.Words{Answers: "counts of cells", Baseline: "noise alone"},
}
