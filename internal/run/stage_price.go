package run

import (
	"fmt"
	"math"

	"github.com/conclave-dp/conclave/gnmax"
	"github.com/conclave-dp/conclave/internal/pipeline/iw"
	"github.com/conclave-dp/conclave/internal/pipeline/pgb"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/runspec"
)

// Stages pay for what a run asks after training, in the order in which it is asked.
type Stages privacy.Plan

// of returns the entry of a stage; ok is false for none.
func (p Stages) of(stage string) (planned privacy.Planned, ok bool) {
	for _, planned := range p {
		if planned.Stage == stage {
			return planned, true
		}
	}
	return privacy.Planned{}, false
}

// has is whether a stage is paid for.
func (p Stages) has(stage string) bool {
	_, ok := p.of(stage)
	return ok
}

// prices are those of the spec's stages: each costs its share of epsilon by itself.
func (s *Spec) prices(budget privacy.Budget) (p Stages, err error) {
	alone := func(share float64) privacy.Budget {
		return privacy.Budget{Epsilon: share * budget.Epsilon, Delta: budget.Delta}
	}
	of := func(field string, share float64) string {
		if share == 1 { // of stages by themselves
			return fmt.Sprintf("epsilon %v", budget.Epsilon)
		}
		return fmt.Sprintf("%s: %v of privacy.epsilon %v", field, share, budget.Epsilon)
	}
	if s.boosts() && Section[pgb.StageOptions](s).Private {
		one, err := privacy.Calibrate(privacy.Event{Kind: privacy.Exponential, Epsilon: 1, Count: int64(Section[pgb.StageOptions](s).Rounds)}, alone(Section[pgb.StageOptions](s).Share))
		if err != nil {
			return nil, fmt.Errorf("%s for %d selections: %w", of("pgb.share", Section[pgb.StageOptions](s).Share), Section[pgb.StageOptions](s).Rounds, err)
		}
		if _, err := gnmax.NewExponential(one.Epsilon, scoreBound); err != nil {
			return nil, fmt.Errorf("%s for %d selections: %w; a larger share or epsilon needs less noise, as do fewer pgb.rounds", of("pgb.share", Section[pgb.StageOptions](s).Share), Section[pgb.StageOptions](s).Rounds, err)
		}
		p = append(p, privacy.Planned{Kind: runspec.Scores, Stage: runspec.Selections, Count: one.Count, Mechanism: privacy.Event{Kind: privacy.Exponential, Epsilon: one.Epsilon}})
	}
	w := Section[iw.Options](s)
	switch {
	case s.fits() && w.Noise == "gaussian":
		sigma, err := privacy.GaussianSigma(alone(w.Share), 1, nil)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", of("weighting.share", w.Share), err)
		}
		p = append(p, privacy.Planned{Kind: runspec.Fit, Stage: runspec.Coefficients, Count: 1, Mechanism: privacy.Event{Kind: privacy.Gaussian, Sigma: sigma, Sensitivity: 1}})
	case s.fits():
		fit := privacy.Planned{Kind: runspec.Fit, Stage: runspec.Coefficients, Count: 1, Mechanism: privacy.Event{Kind: privacy.Laplace, Epsilon: w.Share * budget.Epsilon}}
		if w.Noise == "norm-gamma" {
			fit.Variant = privacy.NormGamma
		}
		p = append(p, fit)
	case s.Weights == weightsMLP:
		if w.MLP.Rate*float64(w.MLP.Steps) <= budget.Delta {
			return nil, fmt.Errorf("weighting.mlp.rate: %v over %d steps takes a unit with a probability below privacy.delta %v, which would be all of its protection; raise rate or steps", w.MLP.Rate, w.MLP.Steps, budget.Delta)
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
		p = append(p, privacy.Planned{
			Kind: runspec.Discriminator, Stage: runspec.Sampled, Count: int64(w.MLP.Steps),
			Mechanism: privacy.Event{Kind: privacy.SubsampledGaussian, Rate: w.MLP.Rate, NoiseMultiplier: sigma},
		})
	}
	return p, nil
}

// stageShares are the shares of epsilon of stages whose noise is pure, which add up, and of
// the others together, whose squares do, roughly.
func (s *Spec) stageShares() (pure, others float64) {
	if s.boosts() && Section[pgb.StageOptions](s).Private {
		others = Section[pgb.StageOptions](s).Share
	}
	switch w := Section[iw.Options](s); {
	case s.fits() && w.Noise != "gaussian":
		pure = w.Share
	case s.fits(), s.Weights == weightsMLP:
		others = math.Hypot(others, w.Share)
	}
	return pure, others
}

// cost is all that the stages may cost.
func (p Stages) cost() []privacy.Event { return privacy.Plan(p).Events() }

// fixed is whether the whole plan of the run is to be priced beforehand, for its stages: sums
// over samples need that, and pure DP composes badly with Gaussian noise by other rules.
func (p Stages) fixed() bool {
	fit, _ := p.of(runspec.Coefficients)
	return p.has(runspec.Sampled) || fit.Mechanism.Kind == privacy.Laplace
}
