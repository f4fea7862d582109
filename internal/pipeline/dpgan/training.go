package dpgan

import (
	"errors"
	"fmt"

	"github.com/conclave-dp/conclave/internal/discriminator"
	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/pipeline/plan"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/internal/runspec"
)

// Pipeline registers this pipeline.
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

// Kept is the number of discriminators stored for stages after training.
func (o Options) Kept() int { return o.Student.Keep }

// training is the training of one run.
type training struct {
	o Options // as configured
	pipeline.Problem
}

func newTraining(o pipeline.Options, p pipeline.Problem) pipeline.Training {
	return &training{*o.(*Options), p}
}

func (t *training) chosen() Options { return t.o.ChosenFor(t.Encoder) }

func (t *training) Chosen() any { return t.chosen() }

func (t *training) Quorum() (share, deadline float64) { return t.o.Quorum, t.o.Deadline }

// ScoredWeights is the size of the discriminator.
func (t *training) ScoredWeights() int { return t.chosen().Spec(t.Encoder, t.Classes).Parameters() }

// Plan prices a sum for each step of the discriminator. All steps are planned before the
// first, and the budget is charged by the privacy loss of the whole plan.
func (t *training) Plan(p *plan.Plan, budget privacy.Budget) error {
	o := t.chosen()
	if err := o.CheckFor(t.Encoder, t.Classes); err != nil {
		return err
	}
	p.Rounds, p.PerRound = o.Steps, o.Spec(t.Encoder, t.Classes).Parameters()
	p.Queries = p.Rounds * p.PerRound
	if p.Start == nil {
		if err := p.BeginWithShares(o.ClassEpsilon, budget); err != nil {
			return err
		}
	}
	p.Training = privacy.Planned{
		Kind: runspec.Discriminator,
		Mechanism: budget.Event(privacy.Event{
			Kind: privacy.SubsampledGaussian, NoiseMultiplier: o.Noise, Rate: o.Rate,
		}),
	}
	budget.Filter = privacy.FilterPLD
	if o.Rate*float64(p.Rounds) <= budget.Delta {
		return fmt.Errorf("dpgan.rate: with %v and %d steps, the probability that a unit is used at all is below "+
			"privacy.delta %v; raise rate or steps", o.Rate, p.Rounds, budget.Delta)
	}
	first := plan.Share{Field: "dpgan.class_epsilon", Value: o.ClassEpsilon}
	if o.Noise == 0 {
		if err := chooseNoise(p, budget, first); err != nil {
			return err
		}
	}
	if most := plan.MostSigma / float64(pipeline.DiscriminatorBound); p.Multiplier() > most {
		if p.Start != nil {
			first = plan.Share{Field: p.Start.Field, Value: p.Start.Share}
		}
		return fmt.Errorf("dpgan: %d steps at rate %v need a noise multiplier of %.4g, and the maximum is %.4g; "+
			"lower %s (%v of privacy.epsilon %v) or dpgan.steps, use a smaller dpgan.rate, or raise "+
			"privacy.epsilon", p.Rounds, o.Rate, p.Multiplier(), most, first.Field, first.Value, budget.Epsilon)
	}
	if err := p.CheckFeasible(plan.Priced{
		First: first, NoiseField: "dpgan.noise", Noise: o.Noise, Bound: pipeline.DiscriminatorBound, What: "steps",
	}, budget); err != nil || o.Noise == 0 {
		return err
	}
	if _, err := p.Planned().Check(budget); err != nil {
		return fmt.Errorf("dpgan.noise: %v is too small for %d steps at rate %v: %w; raise it, or set it to 0 to "+
			"have it chosen", o.Noise, p.Rounds, o.Rate, err)
	}
	return nil
}

// chooseNoise gives the sums the least noise that the budget allows.
func chooseNoise(p *plan.Plan, budget privacy.Budget, first plan.Share) error {
	m := &p.Training.Mechanism
	var err error
	if m.NoiseMultiplier, err = sampledNoise(p, budget); errors.Is(err, privacy.ErrOverBudget) {
		return p.NoRoom(budget, first, fmt.Sprintf("%d steps", p.Rounds))
	} else if err != nil {
		return fmt.Errorf("plan %d steps at rate %v: %w", p.Rounds, m.Rate, err)
	}
	return nil
}

// sampledNoise is the least multiplier with which the whole plan fits the budget. If all units are in every sum
// and the default filter of datasets needs hardly more noise, it is the multiplier for that filter, so that the
// run fits a dataset with the same budget.
func sampledNoise(p *plan.Plan, budget privacy.Budget) (float64, error) {
	rate, rounds := p.Training.Mechanism.Rate, int64(p.Rounds)
	least, err := privacy.SampledSigma(budget, rate, rounds, p.Others())
	if err != nil || rate < 1 {
		return least, err
	}
	const hardly = 1.002
	budget.Filter = privacy.FilterGDP
	if gdp, err := privacy.GaussianSigma(budget, rounds, p.Others()); err == nil && gdp <= hardly*least {
		return max(least, gdp), nil
	}
	return least, nil
}
