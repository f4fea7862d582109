package iw

import (
	"fmt"
	"math"

	"github.com/conclave-dp/conclave/gnmax"
	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/pipeline/plan"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/ratio"
	"github.com/conclave-dp/conclave/internal/runspec"
)

// share is the cost of the weights of a run, if they cost anything.
func share(o pipeline.Options, f pipeline.Followed) plan.Share {
	of := o.(*Options)
	switch {
	case Fits(f.Weights):
		return plan.Share{Field: "weighting.share", Value: of.Share, Pure: of.Noise != "gaussian"}
	case f.Weights == PrivateMLP:
		return plan.Share{Field: "weighting.share", Value: of.Share}
	}
	return plan.Share{}
}

// price plans the fit, or the steps of the network.
func price(o pipeline.Options, f pipeline.Followed, budget privacy.Budget) (plan.Stages, error) {
	of := o.(*Options)
	switch {
	case Fits(f.Weights):
		fit, err := of.priceFit(share(o, f), budget)
		if err != nil {
			return nil, err
		}
		return plan.Stages{fit}, of.checkFit(fit, f)
	case f.Weights == PrivateMLP:
		return of.priceNetwork(share(o, f), budget)
	}
	return nil, nil
}

func (o *Options) priceFit(share plan.Share, budget privacy.Budget) (privacy.Planned, error) {
	fit := privacy.Planned{Kind: runspec.Fit, Stage: runspec.Coefficients, Count: 1}
	if share.Pure {
		fit.Mechanism = budget.Event(privacy.Event{
			Kind: privacy.Laplace, Epsilon: share.Value * budget.Epsilon / float64(budget.Sites()),
		})
		if o.Noise == "norm-gamma" {
			fit.Variant = privacy.NormGamma
		}
		return fit, nil
	}
	sigma, err := privacy.GaussianSigma(share.Alone(budget), 1, nil)
	if err != nil {
		return fit, fmt.Errorf("%s: %w", share.Of(budget), err)
	}
	fit.Mechanism = budget.Event(privacy.Event{Kind: privacy.Gaussian, Sigma: sigma})
	return fit, nil
}

func (o *Options) priceNetwork(share plan.Share, budget privacy.Budget) (plan.Stages, error) {
	m := o.MLP
	if m.Rate*float64(m.Steps) <= budget.Delta {
		return nil, fmt.Errorf("weighting.mlp.rate: with %v and %d steps, the probability that a unit is used at all "+
			"is below privacy.delta %v; raise rate or steps", m.Rate, m.Steps,
			budget.Delta)
	}
	alone := share.Alone(budget)
	alone.Filter = privacy.FilterPLD
	sigma, err := privacy.SampledSigma(alone, m.Rate, int64(m.Steps), nil)
	if err != nil {
		return nil, fmt.Errorf("%s for %d steps: %w", share.Of(budget), m.Steps, err)
	}
	if most := plan.MostSigma / float64(pipeline.DiscriminatorBound); sigma > most {
		return nil, fmt.Errorf("weighting.mlp: %d steps at rate %v need a noise multiplier of %.4g, and the maximum "+
			"is %.4g; lower steps, or raise weighting.share", m.Steps, m.Rate, sigma, most)
	}
	return plan.Stages{{
		Kind: runspec.Discriminator, Stage: runspec.Sampled, Count: int64(m.Steps),
		Mechanism: budget.Event(privacy.Event{
			Kind: privacy.SubsampledGaussian, Rate: m.Rate, NoiseMultiplier: sigma,
		}),
	}}, nil
}

const (
	// mostFitted is the largest number of coefficients that aggregators fit.
	mostFitted = 400
	// mostAsked is the largest round, in bytes, that aggregators take. It leaves room for everything but the
	// synthetic records.
	mostAsked = 60 << 20
)

// checkFit refuses a fit that cannot be asked, or whose noise cannot be drawn, before the training is paid for.
func (o *Options) checkFit(fit privacy.Planned, f pipeline.Followed) error {
	width, rows := Width(f.Encoder, f.Classes, o.Squares), f.Rows
	if o.Use == UseResample {
		rows = min(pipeline.MostCandidates, rows*o.Pool)
	}
	switch {
	case width > mostFitted:
		return fmt.Errorf("weights: %s: the schema's columns have %d features, and the maximum is %d coefficients; "+
			"use dp-mlp, or leave out weighting.squares", f.Weights, width, mostFitted)
	case 4*rows*width > mostAsked:
		return fmt.Errorf("weights: %s: %d synthetic rows of %d features are more than the %d bytes of a question; "+
			"lower release.rows or weighting.pool, or use dp-mlp", f.Weights, rows, width, mostAsked)
	}
	// The largest number of lattice steps by which a unit moves coefficients, for any lambda. A lattice step is
	// above 2^-15 of the sensitivity over the root of the width; see ratio.LatticeFor.
	l2 := math.Ceil((1<<15+1)*math.Sqrt(float64(width))) + 1
	var err error
	switch m := fit.Mechanism; {
	case m.Kind == privacy.Gaussian:
		_, err = gnmax.NewGaussianSum(int64(l2), m.Sigma)
	case fit.Variant == privacy.NormGamma:
		_, err = gnmax.NewNormGamma(m.Epsilon, int64(l2), width)
	default:
		l1 := int64(l2 * math.Ceil(math.Sqrt(float64(width))))
		_, err = gnmax.LaplaceCounts(gnmax.NewSource(), []int64{0}, l1, m.Epsilon)
	}
	if err != nil {
		return fmt.Errorf("weighting: %s noise on %d coefficients for a share of %v: %w; raise weighting.share, or "+
			"use other noise", o.Noise, width, o.Share, err)
	}
	return nil
}

// mostPasses is the largest number of questions of a fit; see [ratio.Problem.Passes].
const mostPasses = 710

// messages returns the messages of a fit, or of the steps of a network.
func messages(of pipeline.Options, f pipeline.Followed, p plan.Stages) (all []pipeline.StageMessages) {
	o := of.(*Options)
	if _, ok := p.Of(runspec.Coefficients); ok {
		width := Width(f.Encoder, f.Classes, o.Squares)
		numbers := width + ratio.Triangle(width)
		all = append(all, pipeline.StageMessages{
			AnswerName: "derivatives", Times: mostPasses, Numbers: numbers,
			Largest: ratio.MostUnits * ratio.FinestBound,
			AnswerContent: fmt.Sprintf("%d numbers: the sum over the site's privacy units of first and second "+
				"derivatives of a regression's loss, in a public number of passes; the aggregator sees it, and "+
				"releases only %d noisy coefficients", numbers, width),
			Asked: "coefficients",
			AskedContent: fmt.Sprintf("%d numbers in each pass: the coefficients so far, WITHOUT NOISE; they depend "+
				"on all sites' records", width),
		})
	}
	if planned, ok := p.Of(runspec.Sampled); ok {
		n := Parameters(f.Encoder, f.Classes, o.MLP.Hidden)
		all = append(all, pipeline.StageMessages{
			AnswerName: "weighting sums", Times: int(planned.Count), Numbers: n,
			Largest: pipeline.MostUnits * pipeline.DiscriminatorBound,
			AnswerContent: fmt.Sprintf("%d numbers: the sum of clipped gradients over a random sample of the site's "+
				"privacy units; the aggregator sees it, and releases only the noisy sum over all nodes", n),
			Asked: "network",
			AskedContent: fmt.Sprintf("the %d weights of the weighting network, in each step; they follow from "+
				"releases", n),
		})
	}
	return all
}
