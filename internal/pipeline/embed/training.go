package embed

import (
	"context"
	"errors"
	"fmt"

	"github.com/conclave-dp/conclave/internal/embedding"
	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/pipeline/plan"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/internal/runspec"
)

// Pipeline registers this pipeline.
var Pipeline = pipeline.Pipeline{
	Name:            "embed",
	Options:         pipeline.Defaults(DefaultOptions),
	New:             newTraining,
	Asks:            []string{runspec.Embedding},
	Kinds:           []question.Kind{embedding.Sum},
	Model:           pipeline.Network,
	Warm:            &warm,
	NoDiscriminator: "it fits its generator to a sum",
	Words:           pipeline.Words{Answers: "summed features", Baseline: "noise alone"},
}

// training is the training of one run.
type training struct {
	o Options // as configured
	pipeline.Problem
}

func newTraining(o pipeline.Options, p pipeline.Problem) pipeline.Training {
	return &training{*o.(*Options), p}
}

func (t *training) Chosen() any { return t.o.ChosenFor(t.Encoder, t.Classes, 0) }

func (t *training) Quorum() (share, deadline float64) { return t.o.Quorum, t.o.Deadline }

// Plan spends the budget on one sum.
func (t *training) Plan(p *plan.Plan, budget privacy.Budget) error {
	sigma := t.o.Noise
	if most := plan.MostSigma / float64(leastBound); sigma > most {
		return fmt.Errorf("embed.noise: %v is too large, and the maximum is %.4g; lower it, or set it to 0 to have "+
			"it chosen", sigma, most)
	}
	var err error
	if sigma == 0 {
		if sigma, err = privacy.GaussianSigma(budget, 1, p.Stages.Cost()); err != nil {
			return err
		}
	}
	noise := budget.Event(privacy.Event{Kind: privacy.Gaussian, Sigma: sigma})
	if p.Start, err = planStart(t.o, t.Problem, noise); err != nil {
		return err
	}
	if _, err := budget.Admit(nil, p.Others()); errors.Is(err, privacy.ErrOverBudget) {
		return fmt.Errorf("embed.noise: %v is too small: %w; raise it, or set it to 0 to have it chosen", t.o.Noise,
			err)
	} else if err != nil {
		return err
	}
	return nil
}

// Largest returns the messages of the one round.
func (t *training) Largest(p *plan.Plan, _ int) pipeline.Largest {
	return largest(&t.o, t.Problem, p.Start)
}

// Student returns an untrained student.
func (t *training) Student(*plan.Plan) (pipeline.Student, error) {
	trainer, err := New(t.o, t.Encoder, t.Classes, t.Seed)
	return &student{trainer}, err
}

type student struct{ *Trainer }

// Learn lets the start ask and fit. Nothing follows it.
func (s *student) Learn(
	ctx context.Context, _ pipeline.Asker, _ int, keep func() error, _ func(pipeline.Progress),
) error {
	return s.Run(ctx, keep)
}

// planStart plans the sum of an embedding of this noise.
func planStart(o Options, p pipeline.Problem, noise privacy.Event) (*plan.Start, error) {
	sigma := noise.Sigma
	o = o.ChosenFor(p.Encoder, p.Classes, sigma)
	if err := o.CheckFor(p.Encoder, p.Classes); err != nil {
		return nil, err
	}
	q, err := o.Question(p.Encoder, p.Classes)
	if err != nil {
		return nil, err
	}
	if Bound(sigma) < leastBound {
		return nil, fmt.Errorf("the sum of the embedding needs a noise multiplier of %.4g, and the maximum is %.4g; "+
			"raise privacy.epsilon or the share of the embedding", sigma, plan.MostSigma/float64(leastBound))
	}
	return &plan.Start{
		Planned: privacy.Planned{Kind: runspec.Embedding, Count: 1, Mechanism: noise},
		Entries: q.Entries,
	}, nil
}

// The fixed-point units of an embedding that aggregators take.
const (
	leastBound = 1 << 9
	mostBound  = 1 << 20
)

// Bound is the fixed-point unit of a unit's features: the finest for which noise of this
// multiplier can be drawn.
func Bound(sigma float64) int64 { return plan.FinestBound(sigma, mostBound) }
