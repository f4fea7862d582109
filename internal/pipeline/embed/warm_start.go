package embed

import (
	"fmt"

	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/pipeline/plan"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/runspec"
)

// warm registers an embedding as a warm start for other pipelines.
var warm = pipeline.WarmStart{
	Section: "warm_start", Kind: runspec.Embedding,
	Options: pipeline.Defaults(func() WarmStart { return WarmStart{Embed: -1} }),
	Share: func(o pipeline.Options) plan.Share {
		return plan.Share{Field: "warm_start.embed", Value: o.(*WarmStart).Embed}
	},
	Plan: func(o pipeline.Options, p pipeline.Problem, noise privacy.Event) (*plan.Start, error) {
		return planStart(*o.(*Options), p, noise)
	},
	Largest: largest,
	Begin: func(
		o pipeline.Options, p pipeline.Problem, s *plan.Start, ask pipeline.Asker, watch func(done, steps int),
	) (pipeline.Start, error) {
		sigma := s.Planned.Mechanism.Sigma
		return NewStart(*o.(*Options), p.Encoder, p.Classes, sigma, &asker{ask, sigma, s.Noise()}, watch)
	},
	Steps: func(o pipeline.Options, p pipeline.Problem) int {
		return o.(*Options).ChosenFor(p.Encoder, p.Classes, 0).Fit.Steps
	},
}

// WarmStart is the section `warm_start:` of a run.yaml. This section buys the generator of a GAN a start.
type WarmStart struct {
	// Embed is the share of epsilon that an embedding costs by itself (docs/embed.md#a-warm-start). The embedding also
	// tells the class counts. More makes the start better and all later answers noisier. 0 means no warm start. -1
	// takes 0.7 for `pategan` and `dpgan` on tables, or less if stages (docs/boosting.md) need more than that leaves,
	// and nothing for others. docs/pipelines.md has the measurements.
	Embed float64 `yaml:"embed"`
}

// Validate wants a share.
func (w WarmStart) Validate() error {
	if w.Embed == -1 || w.Embed >= 0 && w.Embed < 1 {
		return nil
	}
	return fmt.Errorf("warm_start.embed: %v is not a share of the budget, above 0 and below 1; 0 is no warm start, -1 "+
		"has it chosen", w.Embed)
}
