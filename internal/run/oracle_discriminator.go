package run

import (
	"context"
	"fmt"

	"github.com/conclave-dp/conclave/internal/discriminator"
	"github.com/conclave-dp/conclave/internal/nn/safetensors"
	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/internal/runspec"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// described is a discriminator as nodes are told of it.
func described(s discriminator.Spec) *conclavev1.Discriminator {
	d := &conclavev1.Discriminator{
		Kind: conclavev1.Discriminator_KIND_DENSE, Hidden: uint32(s.Hidden), Layers: uint32(s.Layers), Classes: uint32(s.Classes),
		ByClass: conclavev1.Discriminator_CLASSES_TOLD, Standard: s.Standard, Cosines: uint32(s.Cosines),
		Pieces: s.Pieces, Fourier: uint32(s.Fourier), Seed: s.Seed,
	}
	if s.Kind == discriminator.Convolution {
		d.Kind = conclavev1.Discriminator_KIND_CONVOLUTION
	}
	if s.Each {
		d.ByClass = conclavev1.Discriminator_CLASSES_EACH
	}
	return d
}

// discriminatorAsker makes rounds that ask for the gradients of a discriminator, and reads
// their releases.
type discriminatorAsker struct {
	spec       *conclavev1.Discriminator
	loss       conclavev1.DiscriminatorSum_Loss
	rate, clip float64
	features   int
	nothing    bool // of the baseline
}

// round is a round as nodes are sent it.
func (a *discriminatorAsker) round(run string, number uint64, q *pipeline.DiscriminatorQuestion) *conclavev1.Round {
	sum := &conclavev1.DiscriminatorSum{
		Discriminator: a.spec, Weights: safetensors.Bytes(q.Weights), Loss: a.loss, Rate: a.rate, Clip: a.clip, Bound: discriminatorBound, Nothing: a.nothing,
	}
	if q.Mean != nil {
		sum.Mean, sum.Scale = tensor(q.Mean, a.features), tensor(q.Scale, a.features)
	}
	return roundOf(run, number, runspec.Discriminator, sum, question.Shape{Sum: &question.Vector{
		Entries: len(q.Weights), Bound: discriminatorBound, Rate: a.rate,
	}})
}

// read reads the release of a round for n weights, in a run of so many teachers.
func (a *discriminatorAsker) read(release *conclavev1.Release, n int, multiplier float64, teachers int) (*pipeline.DiscriminatorAnswer, error) {
	sum := release.GetSum()
	if sum == nil || len(sum.Values) != n || sum.Scale != discriminatorBound || release.GetTeachers() == 0 {
		return nil, fmt.Errorf("the release of round %d does not fit its %d weights", release.GetRound(), n)
	}
	out := &pipeline.DiscriminatorAnswer{
		Sum: make([]float32, n), Noise: multiplier * a.clip, Share: float64(release.Teachers) / float64(teachers),
		Receipt: release.GetLedgerHash(), Teachers: int(release.GetTeachers()), EpsilonSpent: release.GetEpsilonSpent(),
	}
	for i, v := range sum.Values {
		out.Sum[i] = float32(float64(v) * a.clip / discriminatorBound)
	}
	return out, nil
}

// discriminatorOracle carries the questions of DPGAN over the wire.
type discriminatorOracle struct {
	*oracle
	asker *discriminatorAsker
}

// Discriminator asks a round.
func (o *discriminatorOracle) Discriminator(ctx context.Context, round uint64, q *pipeline.DiscriminatorQuestion) (*pipeline.DiscriminatorAnswer, error) {
	release, err := o.ask(ctx, "", o.asker.round(o.run, round, q))
	if err != nil {
		return nil, err
	}
	return o.asker.read(release, len(q.Weights), o.plan.multiplier(), o.teachers)
}
