package plan

import (
	"errors"
	"fmt"
	"math"

	"github.com/conclave-dp/conclave/gnmax"
	"github.com/conclave-dp/conclave/internal/privacy"
)

// MostSigma is the largest noise that package gnmax draws, in fixed-point steps.
const MostSigma = 1 << 29

// FinestBound is the finest fixed-point unit of a sum for which noise of a multiplier can be drawn: most, or less by a
// power of two.
func FinestBound(sigma float64, most int64) int64 {
	bound := most
	for bound > 1 && sigma*float64(bound) > MostSigma {
		bound /= 2
	}
	return bound
}

// CountScale is the fixed-point unit of class counts: a unit with several
// records adds a fraction of it for each.
const CountScale = 1 << 16

// GaussianNoise returns Gaussian noise for the votes of the plan. Its size is the configured one or, if that is
// 0, the least that the budget admits. Field names the option.
func (p *Plan) GaussianNoise(noise float64, budget privacy.Budget, field string) (sigma float64, err error) {
	if noise > 0 {
		if noise < privacy.MinSigma {
			return 0, fmt.Errorf("%s: %v is below %v, the minimum of integer noise; raise it, or use 0 to have it "+
				"chosen", field, noise, privacy.MinSigma)
		}
		return noise, nil
	}
	return privacy.GNMaxSigma(budget, int64(p.Queries), p.Others())
}

// Confident is Confident-GNMax with an answer's noise of sigma and ratio times as much on the threshold test. A
// sigma that was chosen for GNMax is raised, so that the queries cost the same if every one passes: one costs
// 1/s1^2 + 2/s2^2 with s1 = ratio s2, like a GNMax query of noise s2/sqrt(1 + 1/(2 ratio^2)).
func Confident(sigma float64, chosen bool, ratio, threshold float64) privacy.Event {
	if chosen {
		sigma *= math.Sqrt(1+1/(2*ratio*ratio)) * (1 + 1e-9)
	}
	return privacy.Event{Kind: privacy.ConfidentGNMax, Sigma2: sigma, Sigma1: sigma * ratio, Threshold: threshold}
}

// Drawable refuses noise of the training that cannot be drawn. Bound is the fixed-point unit of its sums.
func (p *Plan) Drawable(bound int64) (err error) {
	switch m := p.Training.Mechanism; m.Kind {
	case privacy.SubsampledGaussian:
		if _, err = gnmax.NewGaussianSum(bound, m.NoiseMultiplier); err == nil {
			_, err = gnmax.NewRate(m.Rate)
		}
	case privacy.Gaussian:
		_, err = gnmax.NewGaussianSum(bound, m.Sigma)
	case privacy.LNMax:
		_, err = gnmax.NewLNMax(m.Lambda, false)
	case privacy.GNMax:
		_, err = gnmax.NewGNMax(m.Sigma, false)
	case privacy.ConfidentGNMax:
		_, err = gnmax.NewConfident(m.Threshold, m.Sigma1, m.Sigma2, false)
	default:
		return fmt.Errorf("mechanism %q is unknown; use gnmax, lnmax or confident-gnmax", m.Kind)
	}
	return err
}

// Priced names the options that a plan's prices come from, for errors.
type Priced struct {
	// First is the option of the class shares.
	First Share
	// NoiseField and Noise are the option of the noise, Bound is the fixed-point unit of sums.
	NoiseField string
	Noise      float64
	Bound      int64
	// Hint says in which direction to change an option. What names the queries.
	Hint, What string
}

// CheckFeasible refuses a plan that the aggregator would refuse later, when the run is open or the class shares
// are already paid for: noise that cannot be drawn, or a budget that does not pay for even one round.
func (p *Plan) CheckFeasible(o Priced, budget privacy.Budget) error {
	if p.ClassShares.Kind == privacy.Laplace {
		if err := o.checkFirst(p, budget); err != nil {
			return err
		}
	}
	fix := fmt.Sprintf("change %s, or set it to 0 to have it chosen", o.NoiseField)
	if o.Noise == 0 {
		fix = "raise privacy.epsilon"
		if p.Start != nil {
			fix += ", or lower " + p.Start.Field
		}
	}
	round := min(p.Queries, p.PerRound)
	if err := p.Drawable(o.Bound); err != nil {
		return fmt.Errorf("noise for %d %s: %w; %s", p.Queries, o.What, err, fix)
	}
	first := p.Training.Worst(p.Releases(round))
	if _, err := budget.Admit(nil, append(first, p.Others()...)); errors.Is(err, privacy.ErrOverBudget) {
		return fmt.Errorf("%s: %v is too expensive for one round of %d queries: %w; %s%s",
			o.NoiseField, o.Noise, round, err, fix, o.Hint)
	} else if err != nil {
		return err
	}
	return nil
}

// checkFirst refuses a price of the class shares whose noise is too large to be drawn.
func (o Priced) checkFirst(p *Plan, budget privacy.Budget) error {
	// A discarded draw shows whether noise of this size can be drawn.
	if _, err := gnmax.LaplaceCounts(gnmax.NewSource(), []int64{0}, CountScale, p.ClassShares.Epsilon); err != nil {
		return fmt.Errorf("%s of privacy.epsilon %v is too small to pay for the class shares (%w); raise either",
			fmt.Sprintf("%s: %v", o.First.Field, o.First.Value), budget.Epsilon, err)
	}
	return nil
}
