package run

import (
	"fmt"

	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/pipeline"
	"github.com/conclave-dp/conclave/pipeline/embed"
	"github.com/conclave-dp/conclave/privacy"
)

// WarmStart buys the generator of a GAN a start.
type WarmStart struct {
	// Embed is the share of the run's epsilon that an embedding may cost by itself; see
	// package embed. It tells the class counts too, which are then not asked for. Default:
	// -1, chosen: what measured better, 0.7 of pategan and dpgan on tables, and else none.
	Embed float64 `yaml:"embed"`
}

// validate wants a share.
func (w WarmStart) validate() error {
	if w.Embed == -1 || w.Embed >= 0 && w.Embed < 1 {
		return nil
	}
	return fmt.Errorf("warm_start.embed: %v is not a share of the budget, above 0 and below 1; 0 is no warm start, -1 has it chosen", w.Embed)
}

// warmShares are the shares that buy a start of tables unless a run says otherwise; see
// bench/embed.
var warmShares = map[string]float64{"pategan": 0.7, "dpgan": 0.7}

// warmShare is that of the run, 0 for none.
func (s *Spec) warmShare(schema *partition.Schema) float64 {
	switch {
	case s.Pipeline == "embed":
		return 0 // which is nothing else
	case s.WarmStart.Embed >= 0:
		return s.WarmStart.Embed
	case schema.Image != nil:
		return 0
	}
	return warmShares[s.Pipeline]
}

// warm has the plan begin with an embedding, where the run wants one.
func (s *Spec) warm(p *Plan, schema *partition.Schema, budget privacy.Budget) error {
	share := s.warmShare(schema)
	if share == 0 {
		return nil
	}
	sigma, err := privacy.GaussianSigma(privacy.Budget{Epsilon: share * budget.Epsilon, Delta: budget.Delta}, 1, nil)
	if err != nil {
		return fmt.Errorf("warm_start.embed: %v of privacy.epsilon %v: %w", share, budget.Epsilon, err)
	}
	if err := p.beginWith(s.Embed, schema, sigma); err != nil {
		return fmt.Errorf("warm_start.embed: %w", err)
	}
	return nil
}

// start is what a run of the plan begins with in place of the class shares; nil for none.
// Watch is told how far the generator is fitted.
func (s *Spec) start(p *Plan, e *partition.Encoder, ask *oracle, watch func(done, steps int)) (pipeline.Start, error) {
	if p.Embedding == nil {
		return nil, nil
	}
	return embed.NewStart(s.Embed, e, p.Classes, p.Embedding.Sigma, &embeddingOracle{ask}, watch)
}
