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

// fitted is a regression that a run may ask for.
type fitted struct {
	seen
	want *ratio.Wanted
}

// seen is the regression's view of the synthetic rows.
type seen struct {
	spec     ratio.Spec
	features *ratio.Features
	vectors  []float64
}

// regression finds log-weights from the coefficients of a logistic regression.
func (w *weigher) regression(ctx context.Context) ([]float64, error) {
	n, err := w.s.Learned.Records(w.o.Records)
	if err != nil {
		return nil, err
	}
	if !Fits(w.s.Weights) {
		return w.exactly(ctx)
	}
	kind, cost := w.noise()
	f, err := w.fitted(kind, cost, float64(n))
	if err != nil {
		return nil, w.failed(err)
	}
	drawn, err := w.drawn(kind, f.want)
	if err != nil {
		return nil, w.failed(err)
	}
	noise := ratio.Noise{}
	if w.s.Weights == Debiased {
		// Check before asking: records, the noise of coefficients and rows are public.
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
	w.s.Note("The regression has %d coefficients with %s noise of scale %.3g, features of length at most %.3g, "+
		"lambda %.3g, and assumes %d privacy units.", f.want.Problem.Width, kind, drawn.Scale, f.spec.Clip,
		f.want.Problem.Lambda, n)
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

// fitted prepares the public part of the fit.
func (w *weigher) fitted(kind ratio.NoiseKind, cost, n float64) (*fitted, error) {
	rows, err := w.seen()
	if err != nil {
		return nil, err
	}
	width, lambda := rows.features.Width(), w.o.Lambda
	if lambda == 0 {
		lambda = max(Lambda(kind, cost, rows.spec.Clip, n, width), ratio.LeastLambda(rows.spec.Clip))
	}
	// Vectors are sent as float32, and rounding must not make them longer.
	for i, v := range rows.vectors {
		rows.vectors[i] = float64(float32(v * (1 - 0x1p-22)))
	}
	want, err := ratio.NewWanted(ratio.Problem{
		Synthetic: rows.vectors, Width: width, Clip: rows.spec.Clip, Lambda: lambda, Records: n,
	})
	return &fitted{rows, want}, err
}

func (w *weigher) seen() (seen, error) {
	features, spec, err := NewFeatures(w.s.Encoder, w.rows.X, w.rows.Classes, w.s.Classes,
		FeatureOptions{Squares: w.o.Squares, Clip: w.o.Clip})
	if err != nil {
		return seen{}, err
	}
	return seen{spec, features, Vectors(features, w.rows.X, w.rows.Classes)}, nil
}

// drawn is the noise as it is drawn, in units of coefficients.
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

// fitRound is the round of a fit on the wire.
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

func (w *weigher) askFit(ctx context.Context, f *fitted) ([]float64, error) {
	notes := w.s.Learned
	kind, _ := w.noise()
	round := fitRound(uint64(len(notes.Receipts)), f, kind, w.s.Ask.Baseline())
	release, err := w.s.Ask.AskReduced(ctx, runspec.Coefficients, round)
	if errors.Is(err, pipeline.ErrRefused) {
		return nil, w.failed(err) // a second try would fail the same way
	}
	if err != nil {
		return nil, err
	}
	sum := release.GetSum()
	if sum == nil || len(sum.Values) != f.want.Problem.Width {
		return nil, fmt.Errorf("the release of round %d does not match its %d coefficients", release.GetRound(),
			f.want.Problem.Width)
	}
	notes.Took(pipeline.PaidBy(release))
	return f.want.Lattice.Values(sum.Values), nil
}
