// Package plan describes what a run will ask, and at what price, before anything is asked. Pipelines fill in
// its [Plan], which becomes the plan in the run's ledger entry.
//
// It is independent of pipelines: the questions of a run are data.
package plan

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/runspec"
)

// Plan is what a run will ask, and at what price, before anything is asked.
type Plan struct {
	// Queries is the number of queries, in Rounds rounds of PerRound each but for the
	// last one, which may have fewer.
	Queries, Rounds, PerRound int
	// Training pays for the rounds: the kind of question and the mechanism that answers.
	Training privacy.Planned
	// ClassShares pays for the class shares that a run begins with. It has no kind if the run begins with a
	// start.
	ClassShares privacy.Event
	// Start is what the run begins with in place of the class shares; nil for none.
	Start *Start
	// Classes is the number of classes of the label, 1 without one.
	Classes int
	// Stages pay for the questions after training. Shares are their options.
	Stages Stages
	Shares []Share
	// Surplus is the factor by which the noise of sums exceeds the charged noise, if sites draw it in shares; 0
	// without masks.
	Surplus float64
}

// BeginWithShares makes the run begin with the class shares, at this price. The noise is Gaussian if sites draw
// it in shares, else Laplace.
func (p *Plan) BeginWithShares(epsilon float64, budget privacy.Budget) (err error) {
	switch {
	case epsilon == 0:
	case p.Surplus > 0:
		p.ClassShares = budget.Event(privacy.Event{Kind: privacy.Gaussian})
		p.ClassShares.Sigma, err = privacy.GaussianSigma(
			privacy.Budget{Epsilon: epsilon, Delta: budget.Delta, Overlap: budget.Overlap}, 1, nil)
	default:
		p.ClassShares = budget.Event(privacy.Event{Kind: privacy.Laplace, Epsilon: epsilon / float64(budget.Sites())})
	}
	return err
}

// CountScale is the standard deviation, or the scale, of the noise on a class count, in privacy units.
func (p *Plan) CountScale() float64 {
	if p.ClassShares.Kind == privacy.Gaussian {
		return p.ClassShares.Sigma * p.Surplus
	}
	return 1 / p.ClassShares.Epsilon
}

// Start is a sum that a run begins with.
type Start struct {
	// Planned pays for it.
	Planned privacy.Planned
	// Entries is the length of the sum.
	Entries int
	// Field and Share are the option for its cost as a share of epsilon; empty if it is the whole run.
	Field string
	Share float64
	// Surplus is the plan's Surplus.
	Surplus float64
}

// Noise is the noise multiplier of the released sum.
func (s *Start) Noise() float64 { return s.Planned.Mechanism.Sigma * cmp.Or(s.Surplus, 1) }

// Sums tells whether each round is answered with one noisy sum.
func (p *Plan) Sums() bool {
	kind := p.Training.Mechanism.Kind
	return kind == privacy.Gaussian || kind == privacy.SubsampledGaussian
}

// Sampled tells whether sums are over samples of the privacy units. All of them are planned, and the budget is
// charged for the whole plan.
func (p *Plan) Sampled() bool { return p.Training.Mechanism.Kind == privacy.SubsampledGaussian }

// Filter is the rule that admits the rounds of the plan, for the budget of its run and for a dataset without
// other runs.
func (p *Plan) Filter() privacy.Filter {
	if p.Sampled() || p.Stages.Fixed() {
		return privacy.FilterPLD
	}
	return ""
}

// Releases is the number of uses of the training's mechanism for this many queries, asked in rounds: one for
// each vote, and one for the sum of a round.
func (p *Plan) Releases(queries int) int64 {
	if p.Sums() {
		return int64((queries + p.PerRound - 1) / p.PerRound)
	}
	return int64(queries)
}

// Multiplier is the noise multiplier of the training's sums.
func (p *Plan) Multiplier() float64 {
	if p.Sampled() {
		return p.Training.Mechanism.NoiseMultiplier
	}
	return p.Training.Mechanism.Sigma
}

// Noise is the noise of each count of a vote, or the noise multiplier of sums.
func (p *Plan) Noise() float64 {
	if p.Training.Mechanism.Kind == privacy.ConfidentGNMax {
		return p.Training.Mechanism.Sigma2
	}
	return p.Multiplier()
}

// Released is the noise of the training's released answers: see [Plan.Noise].
func (p *Plan) Released() float64 { return p.Noise() * cmp.Or(p.Surplus, 1) }

// First pays for round 0: the class shares or a start. The stages of a finished run have no such round.
func (p *Plan) First() privacy.Plan {
	switch {
	case p.Start != nil:
		return privacy.Plan{p.Start.Planned}
	case p.ClassShares.Kind != "":
		return privacy.Plan{{Kind: runspec.ClassCounts, Count: 1, Mechanism: p.ClassShares}}
	}
	return nil
}

// Planned is the plan as data: everything that the run may ask, with its cost.
func (p *Plan) Planned() privacy.Plan {
	all := p.First()
	if p.Queries > 0 {
		training := p.Training
		training.Count = p.Releases(p.Queries)
		all = append(all, training)
	}
	return append(all, p.Stages...)
}

// Pays returns the entry of the plan that pays for a kind of question of a stage.
func (p *Plan) Pays(kind, stage string) (uint32, error) {
	for i, planned := range p.Planned() {
		if planned.Kind == kind && planned.Stage == stage {
			return uint32(i), nil
		}
	}
	return 0, fmt.Errorf("the plan of the run does not include %s", kind)
}

// Others are the events other than the training's questions: round 0 and the stages.
func (p *Plan) Others() []privacy.Event { return append(p.First().Events(), p.Stages.Cost()...) }

// CheckStages refuses a plan whose training could use up what its stages need.
func (p *Plan) CheckStages(budget privacy.Budget) error {
	budget.Filter = p.Filter()
	var own []privacy.Event
	if p.Queries > 0 {
		own = p.Training.Worst(p.Releases(p.Queries))
	}
	if _, err := budget.Admit(own, p.Others()); errors.Is(err, privacy.ErrOverBudget) {
		return fmt.Errorf("the training with the given noise and the stages after it exceed the budget together: %w; "+
			"leave out the noise to have it chosen", err)
	} else if err != nil {
		return err
	}
	return nil
}
