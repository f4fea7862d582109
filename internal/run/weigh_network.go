package run

import (
	"context"
	"math/rand/v2"

	"github.com/conclave-dp/conclave/internal/discriminator"
	"github.com/conclave-dp/conclave/internal/nn/losses"
	"github.com/conclave-dp/conclave/internal/nn/scaling"
	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/pipeline/iw"
	"github.com/conclave-dp/conclave/internal/runfile"
	"github.com/conclave-dp/conclave/internal/runspec"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/encode"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// weighing makes the rounds that train a network to weight rows by.
func (j *Job) weighing(spec discriminator.Spec, nothing bool) *discriminatorAsker {
	m := runfile.Section[iw.Options](j.Spec).MLP
	return &discriminatorAsker{
		spec: described(spec), loss: conclavev1.DiscriminatorSum_LOSS_LOGISTIC, rate: m.Rate, clip: m.Clip, features: spec.Features, nothing: nothing,
	}
}

// weighingOracle carries the questions of a network over the wire.
type weighingOracle struct {
	*oracle
	asker   *discriminatorAsker
	learned *pipeline.Learned
	first   uint64 // the round of step 0
	sigma   float64
}

// Gradient asks a step.
func (o *weighingOracle) Gradient(ctx context.Context, step int, q *pipeline.DiscriminatorQuestion) (*pipeline.DiscriminatorAnswer, error) {
	release, err := o.ask(ctx, runspec.Sampled, o.asker.round(o.run, o.first+uint64(step), q))
	if err != nil {
		return nil, err
	}
	a, err := o.asker.read(release, len(q.Weights), o.sigma, o.teachers)
	if err != nil {
		return nil, err
	}
	o.learned.Took(a.Receipt, a.Teachers, a.EpsilonSpent)
	return a, nil
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

func (g *exactGradients) Gradient(_ context.Context, _ int, q *pipeline.DiscriminatorQuestion) (*pipeline.DiscriminatorAnswer, error) {
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
