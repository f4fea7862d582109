package run

import (
	"errors"
	"fmt"
	"math"

	"github.com/conclave-dp/conclave/gnmax"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/runspec"
	"github.com/conclave-dp/conclave/partition"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// Plan is what a run will ask, and at what price, before anything is asked.
type Plan struct {
	// Queries is the number of queries, in Rounds rounds of PerRound each but for the
	// last one, which may have fewer.
	Queries, Rounds, PerRound int
	// Training pays for them: the kind of question and the mechanism that answers.
	Training privacy.Planned
	// ClassShareEpsilon is the price of the class shares that a run begins with; 0 of one
	// that begins with an embedding.
	ClassShareEpsilon float64
	// Embedding is the sum of public features that a run begins with; nil of one that
	// begins with the class shares.
	Embedding *Embedding
	// Classes is the number of classes of the label, 1 without one.
	Classes int
	// Stages pay for what is asked after training.
	Stages Stages
}

// NewPlan chooses the number of queries and the least noise that the budget
// allows for them, unless the spec sets either. It refuses what could not be
// asked, before a run is open or anything is spent.
func NewPlan(s *Spec, schema *partition.Schema) (*Plan, error) {
	budget, err := privacy.NewBudget(s.Privacy.Epsilon, s.Privacy.Delta)
	if err != nil {
		return nil, err
	}
	stages, err := s.prices(budget)
	if err != nil {
		return nil, err
	}
	if err := s.checkFit(stages, schema); err != nil {
		return nil, err
	}
	if stages.fixed() {
		budget.Filter = privacy.FilterPLD
	}
	p, err := s.work().plan(schema, budget, stages)
	if err != nil || len(stages) == 0 {
		return p, err
	}
	return p, p.checkStages(budget)
}

// checkStages refuses a plan whose training could use up what its stages need.
func (p *Plan) checkStages(budget privacy.Budget) error {
	budget.Filter = p.Filter()
	var own []privacy.Event
	if p.Queries > 0 {
		own = p.Training.Worst(p.releases(p.Queries))
	}
	if _, err := budget.Admit(own, p.others()); errors.Is(err, privacy.ErrOverBudget) {
		return fmt.Errorf("the training with the noise that was set, and the stages after it, do not fit the budget together: %w; leave the noise to be chosen", err)
	} else if err != nil {
		return err
	}
	return nil
}

func classesOf(schema *partition.Schema) int { return max(1, len(schema.Classes())) }

// sums is whether rounds are answered with one noisy sum each.
func (p *Plan) sums() bool {
	kind := p.Training.Mechanism.Kind
	return kind == privacy.Gaussian || kind == privacy.SubsampledGaussian
}

// sampled is whether sums are over samples of the privacy units. All of them are planned,
// and the whole plan is what the budget is charged for.
func (p *Plan) sampled() bool { return p.Training.Mechanism.Kind == privacy.SubsampledGaussian }

// Filter is the rule by which the budget of a run of the plan, and of a dataset that
// nothing else is asked of, admits its rounds.
func (p *Plan) Filter() privacy.Filter {
	if p.sampled() || p.Stages.fixed() {
		return privacy.FilterPLD
	}
	return ""
}

// releases is how often the training's mechanism is used for so many queries, asked in
// rounds: once for each vote, and once for the sum of a round.
func (p *Plan) releases(queries int) int64 {
	if p.sums() {
		return int64((queries + p.PerRound - 1) / p.PerRound)
	}
	return int64(queries)
}

// multiplier is the noise multiplier of the training's sums.
func (p *Plan) multiplier() float64 {
	if p.sampled() {
		return p.Training.Mechanism.NoiseMultiplier
	}
	return p.Training.Mechanism.Sigma
}

// noise is that of each count of a vote, or the noise multiplier of sums.
func (p *Plan) noise() float64 {
	if p.Training.Mechanism.Kind == privacy.ConfidentGNMax {
		return p.Training.Mechanism.Sigma2
	}
	return p.multiplier()
}

// drawable refuses noise of the training that cannot be drawn.
func (p *Plan) drawable() (err error) {
	switch m := p.Training.Mechanism; m.Kind {
	case privacy.SubsampledGaussian:
		if _, err = gnmax.NewGaussianSum(discriminatorBound, m.NoiseMultiplier); err == nil {
			_, err = gnmax.NewRate(m.Rate)
		}
	case privacy.Gaussian:
		_, err = gnmax.NewGaussianSum(2*gradientBound, m.Sigma)
	case privacy.LNMax:
		_, err = gnmax.NewLNMax(m.Lambda, false)
	case privacy.GNMax:
		_, err = gnmax.NewGNMax(m.Sigma, false)
	case privacy.ConfidentGNMax:
		_, err = gnmax.NewConfident(m.Threshold, m.Sigma1, m.Sigma2, false)
	default:
		return fmt.Errorf("mechanism %q is not known; use gnmax, lnmax or confident-gnmax", m.Kind)
	}
	return err
}

// Embedding is a sum of features of all records.
type Embedding struct {
	// Sigma is the noise multiplier, Entries the length of the sum.
	Sigma   float64
	Entries int
}

// first is what pays for round 0: the class shares or the embedding; the stages of a
// finished run have no such round.
func (p *Plan) first() privacy.Plan {
	switch {
	case p.Embedding != nil:
		return privacy.Plan{{
			Kind: runspec.Embedding, Count: 1, Mechanism: privacy.Event{Kind: privacy.Gaussian, Sigma: p.Embedding.Sigma, Sensitivity: 1},
		}}
	case p.ClassShareEpsilon > 0:
		return privacy.Plan{{
			Kind: runspec.ClassCounts, Count: 1, Mechanism: privacy.Event{Kind: privacy.Laplace, Epsilon: p.ClassShareEpsilon},
		}}
	}
	return nil
}

// Planned is the plan as data: all that the run may ask and what each costs.
func (p *Plan) Planned() privacy.Plan {
	all := p.first()
	if p.Queries > 0 {
		training := p.Training
		training.Count = p.releases(p.Queries)
		all = append(all, training)
	}
	return append(all, p.Stages...)
}

// pays returns the entry of the plan that pays for a kind of question of a stage.
func (p *Plan) pays(kind, stage string) (uint32, error) {
	for i, planned := range p.Planned() {
		if planned.Kind == kind && planned.Stage == stage {
			return uint32(i), nil
		}
	}
	return 0, fmt.Errorf("the plan of the run pays for no %s", kind)
}

// others is what a run may ask besides its own questions: round 0 and the stages.
func (p *Plan) others() []privacy.Event { return append(p.first().Events(), p.Stages.cost()...) }

// gaussianNoise is Gaussian noise for the votes of the plan, of the size that was set or,
// where that is 0, the least that the budget admits. Field names the option.
func (p *Plan) gaussianNoise(noise float64, budget privacy.Budget, field string) (sigma float64, err error) {
	if noise > 0 {
		if noise < privacy.MinSigma {
			return 0, fmt.Errorf("%s: %v is below %v, the least that integer noise can be; raise it, or use 0 to have it chosen", field, noise, privacy.MinSigma)
		}
		return noise, nil
	}
	return privacy.GNMaxSigma(budget, int64(p.Queries), p.others())
}

// confident is Confident-GNMax with an answer's noise of sigma and ratio times as much
// on the threshold test. Sigma that was chosen for GNMax is raised, so that the queries
// cost the same when every one passes: one costs 1/s1^2 + 2/s2^2 with s1 = ratio s2, as a
// GNMax query of noise s2/sqrt(1 + 1/(2 ratio^2)) does.
func confident(sigma float64, chosen bool, ratio, threshold float64) privacy.Event {
	if chosen {
		sigma *= math.Sqrt(1+1/(2*ratio*ratio)) * (1 + 1e-9)
	}
	return privacy.Event{Kind: privacy.ConfidentGNMax, Sigma2: sigma, Sigma1: sigma * ratio, Threshold: threshold}
}

// RunSpec is the plan as the aggregator registers it.
func (p *Plan) RunSpec(s *Spec, schema *partition.Schema, dataset string, coin bool) *conclavev1.RunSpec {
	quorum, deadline := s.work().quorum()
	return &conclavev1.RunSpec{
		Name: s.Name, Dataset: dataset, Pipeline: s.Pipeline, SchemaSha256: schema.SHA256,
		Epsilon: s.Privacy.Epsilon, Delta: s.Privacy.Delta, Unit: s.Privacy.Unit, Guarantee: s.Privacy.Guarantee,
		Teachers: uint32(s.Teachers), Quorum: quorum, DeadlineSeconds: deadline, CoinVotes: coin,
		Filter: string(p.Filter()), Plan: runspec.Of(p.Planned()),
	}
}
