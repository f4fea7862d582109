package iw

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/conclave-dp/conclave/internal/discriminator"
	"github.com/conclave-dp/conclave/internal/nn/losses"
	"github.com/conclave-dp/conclave/internal/nn/scaling"
	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/runspec"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/encode"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// network trains a network that tells real from synthetic rows.
func (w *weigher) network(ctx context.Context) ([]float64, error) {
	m, notes := w.o.MLP, w.s.Learned
	n, err := notes.Records(w.o.Records)
	if err != nil {
		return nil, err
	}
	options := NetworkOptions{
		Hidden: m.Hidden, Rate: m.Rate, Steps: m.Steps, Clip: m.Clip, StepSize: m.StepSize, Records: float64(n),
	}
	exact := w.s.Weights == ExactMLP
	if exact {
		options.Rate, options.Records = 1, 1 // these gradients are means already
	}
	net, err := NewNetwork(w.s.Encoder, w.rows.X, w.rows.Classes, w.s.Classes, options, w.s.Seed)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", pipeline.ErrStage, err)
	}
	var oracle Oracle
	if exact {
		w.s.Note("NOT PRIVATE: the weights come from a network trained on the real rows of evaluate.train.")
		oracle = newExactGradients(net.Spec(), w.s.Real)
	} else {
		sampled, _ := w.s.Plan.Of(runspec.Sampled)
		oracle = &stepAsker{
			s: w.s, first: uint64(len(notes.Receipts)), sigma: sampled.Mechanism.NoiseMultiplier,
			of: &pipeline.GradientAsker{
				Spec: net.Spec(), Loss: conclavev1.DiscriminatorSum_LOSS_LOGISTIC, Rate: m.Rate, Clip: m.Clip,
				Nothing: w.s.Ask.Baseline(),
			},
		}
	}
	watch := func(done, steps int) { w.s.Watch("weighting step", done, steps) }
	watch(0, m.Steps)
	if err := net.Run(ctx, oracle, watch); err != nil {
		if errors.Is(err, pipeline.ErrDiverged) {
			err = fmt.Errorf("%w: %w", pipeline.ErrStage, err)
		}
		return nil, err
	}
	odds, err := net.LogOdds()
	if errors.Is(err, pipeline.ErrDiverged) {
		err = fmt.Errorf("%w: %w", pipeline.ErrStage, err)
	}
	return odds, err
}

// stepAsker carries the questions of a network over the wire.
type stepAsker struct {
	s     *pipeline.Session
	of    *pipeline.GradientAsker
	first uint64 // the round of step 0
	sigma float64
}

// Gradient asks for a step.
func (a *stepAsker) Gradient(
	ctx context.Context, step int, q *pipeline.DiscriminatorQuestion,
) (*pipeline.DiscriminatorAnswer, error) {
	release, err := a.s.Ask.Ask(ctx, runspec.Sampled, a.of.Round(a.first+uint64(step), q))
	if err != nil {
		return nil, err
	}
	answer, err := a.of.Read(release, len(q.Weights), a.sigma, a.s.Ask.Teachers())
	if err != nil {
		return nil, err
	}
	a.s.Learned.Took(answer.Paid)
	return answer, nil
}

// exactGradients answers with the gradients of real rows, without noise. NOT PRIVATE.
type exactGradients struct {
	net  *discriminator.Discriminator
	rows *encode.Encoded
	err  error
}

func newExactGradients(spec discriminator.Spec, real *partition.Table) *exactGradients {
	g := &exactGradients{rows: encode.New(real.Schema()).Encode(real)}
	g.net, g.err = discriminator.New(spec, rand.New(rand.NewPCG(0, 0)))
	return g
}

func (g *exactGradients) Gradient(_ context.Context, _ int,
	q *pipeline.DiscriminatorQuestion) (*pipeline.DiscriminatorAnswer, error) {
	if g.err != nil {
		return nil, g.err
	}
	if err := g.net.SetWeights(q.Weights); err != nil {
		return nil, err
	}
	spec := g.net.Spec()
	units, err := scaling.FromUnits(q.Mean, q.Scale, spec.Features, spec.Classes, spec.Numbers)
	if err != nil {
		return nil, err
	}
	g.net.SetUnits(units)
	grad := make([]float32, g.rows.Len())
	losses.Logistic(grad, g.net.Scores(g.rows.Features, g.rows.Classes), true)
	g.net.Backward(grad)
	a := &pipeline.DiscriminatorAnswer{Share: 1}
	for _, p := range g.net.Net.Params() {
		a.Sum = append(a.Sum, p.Grad...)
		clear(p.Grad)
	}
	return a, nil
}
