package iw

import (
	"context"
	"errors"
	"fmt"

	"github.com/conclave-dp/conclave/gnmax"
	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/internal/ratio"
	"github.com/conclave-dp/conclave/internal/ratio/logistic"
	"github.com/conclave-dp/conclave/internal/runspec"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// fitted is a regression that is asked for, or was made on real rows.
type fitted struct {
	spec    ratio.Spec
	vectors []float64 // of the synthetic rows
	want    *ratio.Wanted
}

// regression finds log-weights by the coefficients of a logistic regression.
func (w *weigher) regression(ctx context.Context) ([]float64, error) {
	n, err := w.s.Learned.Records(w.o.Records)
	if err != nil {
		return nil, err
	}
	kind, cost := ratio.None, 0.0
	if Fits(w.s.Weights) {
		kind, cost = w.noise()
	}
	f, err := w.fitted(kind, cost, float64(n))
	if err != nil {
		return nil, w.failed(err)
	}
	if !Fits(w.s.Weights) {
		w.s.Note("NOT PRIVATE: weights are of a regression on the real rows of evaluate.train.")
		beta, err := w.exactly(ctx, f)
		if err != nil {
			return nil, err
		}
		return ratio.LogWeights(beta, f.vectors, ratio.Noise{})
	}
	drawn, err := w.drawn(kind, f.want)
	if err != nil {
		return nil, w.failed(err)
	}
	noise := ratio.Noise{}
	if w.s.Weights == Debiased {
		// Before anything is asked: records, coefficients' noise and rows are public.
		if noise = drawn; noise.Check(f.vectors, f.want.Problem.Width) != nil {
			return nil, w.failed(noise.Check(f.vectors, f.want.Problem.Width))
		}
	}
	w.s.Watch("fit", 0, 1)
	beta, err := w.askFit(ctx, f)
	if err != nil {
		return nil, err
	}
	w.s.Watch("fit", 1, 1)
	w.s.Note("The regression has %d coefficients with %s noise of scale %.3g, features of length %.3g at most, lambda "+
		"%.3g, and counts on %d privacy units.",
		f.want.Problem.Width, kind, drawn.Scale, f.spec.Clip, f.want.Problem.Lambda, n)
	return ratio.LogWeights(beta, f.vectors, noise)
}

// noise is the kind of noise and its price: the multiplier of Gaussian noise, else epsilon.
func (w *weigher) noise() (ratio.NoiseKind, float64) {
	switch f, _ := w.s.Plan.Of(runspec.Coefficients); {
	case f.Mechanism.Kind == privacy.Gaussian:
		return ratio.Gaussian, f.Mechanism.Sigma
	case f.Variant == privacy.NormGamma:
		return ratio.NormGamma, f.Mechanism.Epsilon
	default:
		return ratio.Laplace, f.Mechanism.Epsilon
	}
}

// fitted makes what is public of the fit.
func (w *weigher) fitted(kind ratio.NoiseKind, cost, n float64) (*fitted, error) {
	o := w.o
	features, spec, err := NewFeatures(w.s.Encoder, w.rows.X, w.rows.Classes, w.s.Classes,
		FeatureOptions{Squares: o.Squares, Clip: o.Clip})
	if err != nil {
		return nil, err
	}
	lambda := o.Lambda
	if lambda == 0 {
		lambda = Lambda(kind, cost, spec.Clip, n, features.Width())
	}
	f := &fitted{spec: spec, vectors: Vectors(features, w.rows.X, w.rows.Classes)}
	// What is sent has the digits of float32, and must not be longer for them.
	for i, v := range f.vectors {
		f.vectors[i] = float64(float32(v * (1 - 0x1p-22)))
	}
	f.want, err = ratio.NewWanted(ratio.Problem{
		Synthetic: f.vectors, Width: features.Width(), Clip: spec.Clip, Lambda: lambda, Records: n,
	})
	return f, err
}

// drawn is the noise as it is drawn, in coefficients.
func (w *weigher) drawn(kind ratio.NoiseKind, want *ratio.Wanted) (ratio.Noise, error) {
	_, cost := w.noise()
	steps := 0.0
	switch kind {
	case ratio.Gaussian:
		sum, err := gnmax.NewGaussianSum(want.L2, cost)
		if err != nil {
			return ratio.Noise{}, err
		}
		steps = sum.Sigma().Float()
	case ratio.NormGamma:
		gamma, err := gnmax.NewNormGamma(cost, want.L2, want.Problem.Width)
		if errors.Is(err, gnmax.ErrDimension) {
			return ratio.Noise{}, fmt.Errorf("weighting.noise: %w", err)
		}
		if err != nil {
			return ratio.Noise{}, err
		}
		steps, _ = gamma.Scale().Float64()
	default:
		steps = float64(want.L1) / cost
	}
	return want.Scale(kind, steps), nil
}

// fitRound is the round of a fit as it is asked.
func fitRound(number uint64, f *fitted, kind ratio.NoiseKind, nothing bool) *conclavev1.Round {
	synthetic := make([]float32, len(f.vectors))
	for i, v := range f.vectors {
		synthetic[i] = float32(v)
	}
	norm := question.L2
	if kind == ratio.Laplace {
		norm = question.L1
	}
	r := question.Ask(runspec.Fit, &conclavev1.Fit{
		Features: &conclavev1.RatioFeatures{
			Mean: f.spec.Mean, Scale: f.spec.Scale, Squares: f.spec.Squares, Clip: f.spec.Clip,
		},
		Synthetic: pipeline.Tensor(synthetic, f.want.Problem.Width), Lambda: f.want.Problem.Lambda,
		Records: f.want.Problem.Records, Nothing: nothing,
	}, logistic.Shape(f.want, norm))
	r.Number = number
	return r
}

// askFit asks for the noisy coefficients.
func (w *weigher) askFit(ctx context.Context, f *fitted) ([]float64, error) {
	notes := w.s.Learned
	kind, _ := w.noise()
	round := fitRound(uint64(len(notes.Receipts)), f, kind, w.s.Ask.Baseline())
	release, err := w.s.Ask.AskReduced(ctx, runspec.Coefficients, round)
	if errors.Is(err, pipeline.ErrRefused) {
		return nil, w.failed(err) // as it would be again
	}
	if err != nil {
		return nil, err
	}
	sum := release.GetSum()
	if sum == nil || len(sum.Values) != f.want.Problem.Width {
		return nil, fmt.Errorf("the release of round %d does not fit its %d coefficients", release.GetRound(),
			f.want.Problem.Width)
	}
	notes.Took(release.GetLedgerHash(), int(release.GetTeachers()), release.GetEpsilonSpent())
	return f.want.Lattice.Values(sum.Values), nil
}

// exactly fits to the real rows of evaluate.train. NOT PRIVATE.
func (w *weigher) exactly(ctx context.Context, f *fitted) ([]float64, error) {
	features, err := ratio.New(f.spec)
	if err != nil {
		return nil, err
	}
	real := w.s.Encoder.Encode(w.s.Real)
	vectors := Vectors(features, real.Features, real.Classes)
	p, width := f.want.Problem, f.want.Problem.Width
	p.Records, p.Rounding, p.Tolerance = float64(real.Len()), 0, 0
	steps := ratio.Steps{Width: width, Clip: f.spec.Clip, Bound: ratio.FinestBound}
	result, err := ratio.Fit(ctx, p, func(_ context.Context, beta []float64) (g, h []float64, err error) {
		pass, err := ratio.NewPass(steps, beta)
		if err != nil {
			return nil, nil, err
		}
		for i := range real.Len() {
			if err := pass.Add(vectors[i*width : (i+1)*width]); err != nil {
				return nil, nil, err
			}
		}
		g, h = steps.Decode(pass.Sums())
		return g, h, nil
	})
	if err != nil {
		return nil, err
	}
	return result.Beta, nil
}
