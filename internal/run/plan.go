package run

import (
	"errors"
	"fmt"
	"math"

	"github.com/conclave-dp/conclave/gnmax"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/partition"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// Plan is what a run will ask, and at what price, before anything is asked.
type Plan struct {
	// Queries is the number of queries, in Rounds rounds of PerRound each but for the
	// last one, which may have fewer.
	Queries, Rounds, PerRound int
	// Mechanism answers them.
	Mechanism *conclavev1.Mechanism
	// ClassShareEpsilon is the price of the class shares that a run begins with; 0 of one
	// that begins with an embedding.
	ClassShareEpsilon float64
	// Embedding is the sum of public features that a run begins with; nil of one that
	// begins with the class shares.
	Embedding *Embedding
	// Classes is the number of classes of the label, 1 without one.
	Classes int
	// Stages is what is asked after training; nil for nothing.
	Stages *Stages
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
	if err := s.checkFit(stages.Fit, schema); err != nil {
		return nil, err
	}
	if stages.planned() {
		budget.Filter = privacy.FilterPLD
	}
	p, err := s.work().plan(schema, budget, stages)
	if err != nil || !stages.any() {
		return p, err
	}
	return p, p.checkStages(budget)
}

// checkStages refuses a plan whose training could use up what its stages need.
func (p *Plan) checkStages(budget privacy.Budget) error {
	budget.Filter = p.Filter()
	var own []privacy.Event
	if p.Queries > 0 {
		var err error
		if own, err = p.cost(p.releases(p.Queries)); err != nil {
			return err
		}
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
func (p *Plan) sums() bool { return p.Mechanism.GetKind() == conclavev1.Mechanism_KIND_GAUSSIAN_SUM }

// sampled is whether sums are over samples of the privacy units. All of them are planned,
// and the whole plan is what the budget is charged for.
func (p *Plan) sampled() bool { return p.sums() && p.Mechanism.GetRate() > 0 }

// Filter is the rule by which the budget of a run of the plan, and of a dataset that
// nothing else is asked of, admits its rounds.
func (p *Plan) Filter() privacy.Filter {
	if p.sampled() || p.Stages.planned() {
		return privacy.FilterPLD
	}
	return ""
}

// releases is what so many queries, asked in rounds, are charged as: votes one by one,
// sums by the round.
func (p *Plan) releases(queries int) int64 {
	if p.sums() {
		return int64((queries + p.PerRound - 1) / p.PerRound)
	}
	return int64(queries)
}

// cost is the most that a number of releases can cost.
func (p *Plan) cost(releases int64) ([]privacy.Event, error) {
	if p.sampled() {
		sum, err := gnmax.NewGaussianSum(discriminatorBound, p.Mechanism.Sigma)
		if err != nil {
			return nil, err
		}
		rate, err := gnmax.NewRate(p.Mechanism.Rate)
		if err != nil {
			return nil, err
		}
		return sum.SampledCost(rate, releases), nil
	}
	if p.sums() {
		sum, err := gnmax.NewGaussianSum(2*gradientBound, p.Mechanism.Sigma)
		if err != nil {
			return nil, err
		}
		return sum.Cost(releases), nil
	}
	mechanism, err := p.mechanism()
	if err != nil {
		return nil, err
	}
	return mechanism.Worst(releases), nil
}

// mechanism is what the aggregator makes of the plan's for votes.
func (p *Plan) mechanism() (gnmax.Mechanism, error) {
	m := p.Mechanism
	switch m.Kind {
	case conclavev1.Mechanism_KIND_LNMAX:
		return gnmax.NewLNMax(m.Lambda, m.WholeHistogram)
	case conclavev1.Mechanism_KIND_GNMAX:
		return gnmax.NewGNMax(m.Sigma, m.WholeHistogram)
	case conclavev1.Mechanism_KIND_CONFIDENT_GNMAX:
		return gnmax.NewConfident(m.Threshold, m.SigmaThreshold, m.Sigma, m.WholeHistogram)
	}
	return nil, fmt.Errorf("mechanism %v is not known; use gnmax, lnmax or confident-gnmax", m.Kind)
}

// Embedding is a sum of features of all records.
type Embedding struct {
	// Sigma is the noise multiplier, Entries the length of the sum.
	Sigma   float64
	Entries int
}

// first is what round 0 costs: the class shares or the embedding.
func (p *Plan) first() []privacy.Event {
	if p.Embedding != nil {
		return []privacy.Event{{Kind: privacy.Gaussian, Sigma: p.Embedding.Sigma, Sensitivity: 1, Count: 1}}
	}
	return []privacy.Event{{Kind: privacy.Laplace, Epsilon: p.ClassShareEpsilon, Count: 1}}
}

// others is what a run may ask besides its own questions: round 0 and the stages.
func (p *Plan) others() []privacy.Event { return append(p.first(), p.Stages.cost()...) }

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
func confident(sigma float64, chosen bool, ratio, threshold float64) *conclavev1.Mechanism {
	if chosen {
		sigma *= math.Sqrt(1+1/(2*ratio*ratio)) * (1 + 1e-9)
	}
	return &conclavev1.Mechanism{
		Kind: conclavev1.Mechanism_KIND_CONFIDENT_GNMAX, Sigma: sigma, SigmaThreshold: sigma * ratio, Threshold: threshold,
	}
}

// RunSpec is the plan as the aggregator registers it.
func (p *Plan) RunSpec(s *Spec, schema *partition.Schema, dataset string, coin bool) *conclavev1.RunSpec {
	quorum, deadline := s.work().quorum()
	rounds := 0
	if p.sampled() {
		rounds = p.Rounds
	}
	spec := &conclavev1.RunSpec{
		Name: s.Name, Dataset: dataset, Pipeline: s.Pipeline, SchemaSha256: schema.SHA256,
		Epsilon: s.Privacy.Epsilon, Delta: s.Privacy.Delta, Unit: s.Privacy.Unit, Guarantee: s.Privacy.Guarantee,
		Teachers: uint32(s.Teachers), Mechanism: p.Mechanism,
		Quorum: quorum, DeadlineSeconds: deadline,
		ClassShareEpsilon: p.ClassShareEpsilon, CoinVotes: coin, Rounds: uint64(rounds),
	}
	if p.Embedding != nil {
		spec.EmbeddingSigma = p.Embedding.Sigma
	}
	if p.Stages.planned() && !p.sampled() && p.Queries > 0 {
		spec.Queries = uint64(p.releases(p.Queries))
	}
	p.Stages.register(spec)
	return spec
}
