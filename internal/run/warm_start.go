package run

import (
	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/pipeline/embed"
	"github.com/conclave-dp/conclave/internal/runfile"
	"github.com/conclave-dp/conclave/partition/encode"
)

// start is what a run of the plan begins with in place of the class shares; nil for none.
// Watch is told how far the generator is fitted.
func start(s *Spec, p *Plan, e *encode.Encoder, ask *oracle, watch func(done, steps int)) (pipeline.Start, error) {
	if p.Embedding == nil {
		return nil, nil
	}
	return embed.NewStart(*runfile.Section[embed.Options](s), e, p.Classes, p.Embedding.Sigma, &embeddingOracle{ask}, watch)
}
