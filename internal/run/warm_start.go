package run

import (
	"fmt"
	"math"
	"strings"

	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/pipeline/embed"
	"github.com/conclave-dp/conclave/internal/pipeline/iw"
	"github.com/conclave-dp/conclave/internal/pipeline/pgb"
	"github.com/conclave-dp/conclave/internal/pipelines"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/runspec"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/encode"
)

// warmShare is that of the run, 0 for none.
func (s *Spec) warmShare(schema *partition.Schema) float64 {
	share := Section[embed.WarmStart](s).Embed
	switch {
	case s.Pipeline == pipelines.Warm.Pipeline:
		return 0 // which is nothing else
	case share >= 0:
		return share
	case schema.Image != nil:
		return 0
	}
	pure, others := s.stageShares()
	left := 1 - pure
	p, _ := pipelines.Named(s.Pipeline)
	share = min(p.WarmShare*left, math.Sqrt(max(0, square(0.8*left)-square(others))))
	if share < 0.1 {
		return 0
	}
	return math.Round(100*share) / 100
}

func square(x float64) float64 { return x * x }

// noRoom says that what comes before a run's own questions, which are what, and after them
// leaves nothing of the budget. Field and share are of what a run without a start begins with.
func (p *Plan) noRoom(s *Spec, schema *partition.Schema, field string, share float64, what string) error {
	if p.Embedding != nil {
		field, share = "warm_start.embed", s.warmShare(schema)
	}
	parts := []string{fmt.Sprintf("%s: %v", field, share)}
	if p.Stages.has(runspec.Selections) {
		parts = append(parts, fmt.Sprintf("pgb.share: %v", Section[pgb.StageOptions](s).Share))
	}
	if p.Stages.has(runspec.Coefficients) || p.Stages.has(runspec.Sampled) {
		parts = append(parts, fmt.Sprintf("weighting.share: %v", Section[iw.Options](s).Share))
	}
	leave, lower := "leaves", "it"
	if len(parts) > 1 {
		leave, lower = "leave", "them"
	}
	return fmt.Errorf("%s %s nothing of privacy.epsilon %v for %s; lower %s, or raise privacy.epsilon", strings.Join(parts, ", "), leave, s.Privacy.Epsilon, what, lower)
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
	if err := p.beginWith(*Section[embed.Options](s), schema, sigma); err != nil {
		return fmt.Errorf("warm_start.embed: %w", err)
	}
	return nil
}

// start is what a run of the plan begins with in place of the class shares; nil for none.
// Watch is told how far the generator is fitted.
func (s *Spec) start(p *Plan, e *encode.Encoder, ask *oracle, watch func(done, steps int)) (pipeline.Start, error) {
	if p.Embedding == nil {
		return nil, nil
	}
	return embed.NewStart(*Section[embed.Options](s), e, p.Classes, p.Embedding.Sigma, &embeddingOracle{ask}, watch)
}
