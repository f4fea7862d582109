package pategan

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

// Kept is the number of discriminators stored for stages after training.
func (o Options) Kept() int { return o.Student.Keep }

// training holds the state of one run's training.
type training struct {
	o Options
	pipeline.Problem
}

func newTraining(o pipeline.Options, p pipeline.Problem) pipeline.Training {
	return &training{*o.(*Options), p}
}

func (t *training) Chosen() any { return t.o }

func (t *training) Quorum() (share, deadline float64) { return t.o.Quorum, t.o.Deadline }

// Plan prices a vote for each query.
func (t *training) Plan(p *plan.Plan, budget privacy.Budget) error {
	o := t.o
	p.Queries, p.PerRound = o.Labels, o.Queries
	if p.Start == nil {
		if err := p.BeginWithShares(o.ClassShare*budget.Epsilon, budget); err != nil {
			return err
		}
	}
	if p.Queries == 0 {
		p.Queries = LabelsFor(budget.Epsilon, t.Teachers)
	}
	p.Rounds = (p.Queries + o.Queries - 1) / o.Queries
	first := plan.Share{Field: "pategan.class_share", Value: o.ClassShare}
	var err error
	if p.Training, err = t.mechanism(p, budget); errors.Is(err, privacy.ErrOverBudget) {
		return p.NoRoom(budget, first, fmt.Sprintf("%d labels", p.Queries))
	} else if err != nil {
		return fmt.Errorf("plan %d labels: %w", p.Queries, err)
	}
	return p.CheckFeasible(plan.Priced{
		First: first, NoiseField: "pategan.noise", Noise: o.Noise,
		Hint: " (sigma grows with the noise, lambda of lnmax falls)", What: "labels",
	}, budget)
}

// mechanism returns the mechanism that answers a query. Unless its noise was set, it has the least noise that
// the budget allows.
func (t *training) mechanism(p *plan.Plan, budget privacy.Budget) (of privacy.Planned, err error) {
	o := t.o
	of.Kind = runspec.Votes
	if o.Release == "histogram" {
		of.Variant = privacy.Histogram
	}
	switch o.Mechanism {
	case LNMax:
		of.Mechanism = budget.Event(privacy.Event{Kind: privacy.LNMax, Lambda: o.Noise})
		if o.Noise == 0 {
			of.Mechanism.Lambda, err = privacy.LNMaxLambda(budget, int64(p.Queries), p.Others())
		}
	case GNMax:
		of.Mechanism = budget.Event(privacy.Event{Kind: privacy.GNMax})
		of.Mechanism.Sigma, err = p.GaussianNoise(o.Noise, budget, "pategan.noise")
	case ConfidentGNMax:
		var sigma float64
		sigma, err = p.GaussianNoise(o.Noise, budget, "pategan.noise")
		of.Mechanism = budget.Event(
			plan.Confident(sigma, o.Noise == 0, o.ThresholdNoise, o.Threshold*float64(t.Teachers)))
	}
	return of, err
}
