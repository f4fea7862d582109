package gpate

import (
	"errors"
	"fmt"

	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/pipeline/plan"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/internal/runspec"
	"github.com/conclave-dp/conclave/internal/teachers"
)

// Pipeline registers this pipeline.
var Pipeline = pipeline.Pipeline{
	Name:            "gpate",
	Options:         pipeline.Defaults(DefaultOptions),
	New:             newTraining,
	Asks:            []string{runspec.ClassCounts, runspec.GradientVotes, runspec.GradientSums},
	Kinds:           []question.Kind{teachers.GradientVotes, teachers.GradientSum},
	Model:           pipeline.Network,
	Teachers:        true,
	NoDiscriminator: "its student learns from gradients",
	TakesWarm:       true,
	Words:           pipeline.Words{Answers: "gradients", Baseline: "coin flips"},
}

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

// Bound is the fixed-point unit of a teacher's vector. Rounding takes less than a step from each entry. Entries
// of a vector of 100,000 numbers have about 200 steps, so the loss is a quarter of a percent.
const Bound = 1 << 16

// Plan prices each record x direction x round as a vote, or each round as one sum, whose sensitivity covers all of
// its records and directions.
func (t *training) Plan(p *plan.Plan, budget privacy.Budget) error {
	o := t.chosen()
	if err := o.CheckFor(t.Encoder); err != nil {
		return err
	}
	p.Rounds, p.PerRound = o.Rounds, o.Records*o.Directions
	p.Queries = p.Rounds * p.PerRound
	if p.Start == nil {
		if err := p.BeginWithShares(o.ClassEpsilon, budget); err != nil {
			return err
		}
	}
	first := plan.Share{Field: "gpate.class_epsilon", Value: o.ClassEpsilon}
	if _, err := privacy.GaussianSigma(budget, 1, p.Others()); errors.Is(err, privacy.ErrOverBudget) {
		return p.NoRoom(budget, first, "gradients")
	}
	var err error
	if p.Training, err = t.mechanism(o, p, budget); err != nil {
		return fmt.Errorf("plan %d rounds of %d records in %d directions: %w", p.Rounds, o.Records, o.Directions, err)
	}
	return p.CheckFeasible(plan.Priced{
		First: first, NoiseField: "gpate.noise", Noise: o.Noise, Bound: 2 * Bound, What: "gradients",
	}, budget)
}

// mechanism returns the mechanism that answers a round or a vote. Unless its noise was set, it has the least
// noise that the budget allows.
func (t *training) mechanism(o Options, p *plan.Plan, budget privacy.Budget) (of privacy.Planned, err error) {
	of.Kind = runspec.GradientVotes
	if o.Answers == Histogram {
		of.Variant = privacy.Histogram
	}
	switch {
	case o.Answers == Sum:
		of.Kind, of.Mechanism = runspec.GradientSums,
			budget.Event(privacy.Event{Kind: privacy.Gaussian, Sigma: o.Noise})
		if o.Noise == 0 {
			of.Mechanism.Sigma, err = privacy.GaussianSigma(budget, int64(p.Rounds), p.Others())
		}
	case o.Mechanism == "gnmax":
		of.Mechanism = budget.Event(privacy.Event{Kind: privacy.GNMax})
		of.Mechanism.Sigma, err = p.GaussianNoise(o.Noise, budget, "gpate.noise")
	default:
		var sigma float64
		sigma, err = p.GaussianNoise(o.Noise, budget, "gpate.noise")
		of.Mechanism = budget.Event(
			plan.Confident(sigma, o.Noise == 0, o.ThresholdNoise, o.Threshold*float64(t.Teachers)))
	}
	return of, err
}
