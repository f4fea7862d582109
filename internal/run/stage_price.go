package run

import (
	"fmt"
	"math"

	"github.com/conclave-dp/conclave/gnmax"
	"github.com/conclave-dp/conclave/internal/privacy"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// Stages is what a run asks after training, and at what price.
type Stages struct {
	// Selections are those of boosting, Fit is the noise of coefficients, Sampled are the
	// sums that train a network; nil for none.
	Selections *conclavev1.Selections
	Fit        *conclavev1.FitNoise
	Sampled    *conclavev1.SampledSums
}

// prices are those of the spec's stages: each costs its share of epsilon by itself.
func (s *Spec) prices(budget privacy.Budget) (*Stages, error) {
	p := &Stages{}
	alone := func(share float64) privacy.Budget {
		return privacy.Budget{Epsilon: share * budget.Epsilon, Delta: budget.Delta}
	}
	of := func(field string, share float64) string {
		if share == 1 { // of stages by themselves
			return fmt.Sprintf("epsilon %v", budget.Epsilon)
		}
		return fmt.Sprintf("%s: %v of privacy.epsilon %v", field, share, budget.Epsilon)
	}
	if s.boosts() && s.PGB.Private {
		one, err := privacy.Calibrate(privacy.Event{Kind: privacy.Exponential, Epsilon: 1, Count: int64(s.PGB.Rounds)}, alone(s.PGB.Share))
		if err != nil {
			return nil, fmt.Errorf("%s for %d selections: %w", of("pgb.share", s.PGB.Share), s.PGB.Rounds, err)
		}
		if _, err := gnmax.NewExponential(one.Epsilon, scoreBound); err != nil {
			return nil, fmt.Errorf("%s for %d selections: %w; a larger share or epsilon needs less noise, as do fewer pgb.rounds", of("pgb.share", s.PGB.Share), s.PGB.Rounds, err)
		}
		p.Selections = &conclavev1.Selections{Epsilon: one.Epsilon, Count: uint64(s.PGB.Rounds)}
	}
	w := s.Weighting
	switch {
	case s.fits() && w.Noise == "gaussian":
		sigma, err := privacy.GaussianSigma(alone(w.Share), 1, nil)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", of("weighting.share", w.Share), err)
		}
		p.Fit = &conclavev1.FitNoise{Kind: conclavev1.FitNoise_KIND_GAUSSIAN, Sigma: sigma}
	case s.fits():
		p.Fit = &conclavev1.FitNoise{Kind: conclavev1.FitNoise_KIND_LAPLACE, Epsilon: w.Share * budget.Epsilon}
		if w.Noise == "norm-gamma" {
			p.Fit.Kind = conclavev1.FitNoise_KIND_NORM_GAMMA
		}
	case s.Weights == weightsMLP:
		if w.MLP.Rate*float64(w.MLP.Steps) <= budget.Delta {
			return nil, fmt.Errorf("weighting.mlp.rate: %v over %d steps takes a unit with a probability below privacy.delta %v, which would be all of its protection; raise rate or steps", w.MLP.Rate, w.MLP.Steps, budget.Delta)
		}
		if s.Pipeline == "dpgan" && s.DPGAN.Rate == w.MLP.Rate {
			return nil, fmt.Errorf("weighting.mlp.rate: %v is dpgan.rate too, and the sums of the two are told apart by their rates; set one of them to a little more or less", w.MLP.Rate)
		}
		b := alone(w.Share)
		b.Filter = privacy.FilterPLD
		sigma, err := privacy.SampledSigma(b, w.MLP.Rate, int64(w.MLP.Steps), nil)
		if err != nil {
			return nil, fmt.Errorf("%s for %d steps: %w", of("weighting.share", w.Share), w.MLP.Steps, err)
		}
		if most := float64(mostSigma) / discriminatorBound; sigma > most {
			return nil, fmt.Errorf("weighting.mlp: %d steps at rate %v need a noise multiplier of %.4g, and %.4g is the most that is drawn; lower steps, or raise weighting.share", w.MLP.Steps, w.MLP.Rate, sigma, most)
		}
		p.Sampled = &conclavev1.SampledSums{Sigma: sigma, Rate: w.MLP.Rate, Count: uint64(w.MLP.Steps)}
	}
	return p, nil
}

// stageShares are the shares of epsilon of stages whose noise is pure, which add up, and of
// the others together, whose squares do, roughly.
func (s *Spec) stageShares() (pure, others float64) {
	if s.boosts() && s.PGB.Private {
		others = s.PGB.Share
	}
	switch w := s.Weighting; {
	case s.fits() && w.Noise != "gaussian":
		pure = w.Share
	case s.fits(), s.Weights == weightsMLP:
		others = math.Hypot(others, w.Share)
	}
	return pure, others
}

// cost is all that the stages may cost.
func (p *Stages) cost() (events []privacy.Event) {
	if p == nil {
		return nil
	}
	if q := p.Selections; q != nil {
		events = append(events, privacy.Event{Kind: privacy.Exponential, Epsilon: q.Epsilon, Count: int64(q.Count)})
	}
	switch f := p.Fit; {
	case f == nil:
	case f.Kind == conclavev1.FitNoise_KIND_GAUSSIAN:
		events = append(events, privacy.Event{Kind: privacy.Gaussian, Sigma: f.Sigma, Sensitivity: 1, Count: 1})
	default:
		events = append(events, privacy.Event{Kind: privacy.Laplace, Epsilon: f.Epsilon, Count: 1})
	}
	if w := p.Sampled; w != nil {
		events = append(events, privacy.Event{Kind: privacy.SubsampledGaussian, Rate: w.Rate, NoiseMultiplier: w.Sigma, Count: int64(w.Count)})
	}
	return events
}

// any is whether there is a stage that is paid for.
func (p *Stages) any() bool { return len(p.cost()) > 0 }

// planned is whether the run is to have a plan, for its stages: sums over samples need one,
// and pure DP composes badly with Gaussian noise by other rules.
func (p *Stages) planned() bool {
	return p != nil && (p.Sampled != nil || p.Fit != nil && p.Fit.Kind != conclavev1.FitNoise_KIND_GAUSSIAN)
}

// register adds the stages to a run's spec.
func (p *Stages) register(spec *conclavev1.RunSpec) {
	if p != nil {
		spec.Selections, spec.Fit, spec.Sampled = p.Selections, p.Fit, p.Sampled
	}
}
