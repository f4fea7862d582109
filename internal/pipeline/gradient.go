package pipeline

import (
	"fmt"

	"github.com/conclave-dp/conclave/internal/discriminator"
	"github.com/conclave-dp/conclave/internal/nn/safetensors"
	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/internal/runspec"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// GradientAsker makes rounds that ask for the gradients of a discriminator, and reads
// their releases.
type GradientAsker struct {
	Spec       discriminator.Spec
	Loss       conclavev1.DiscriminatorSum_Loss
	Rate, Clip float64
	// Nothing asks for a sum without records, for a baseline.
	Nothing bool
}

// Round is a round as it is sent to nodes.
func (a *GradientAsker) Round(number uint64, q *DiscriminatorQuestion) *conclavev1.Round {
	sum := &conclavev1.DiscriminatorSum{
		Discriminator: a.Spec.Describe(), Weights: safetensors.Bytes(q.Weights), Loss: a.Loss, Rate: a.Rate,
		Clip:  a.Clip,
		Bound: DiscriminatorBound, Nothing: a.Nothing,
	}
	if q.Mean != nil {
		sum.Mean, sum.Scale = Tensor(q.Mean, a.Spec.Features), Tensor(q.Scale, a.Spec.Features)
	}
	r := question.Ask(runspec.Discriminator, sum, question.Shape{Sum: &question.Vector{
		Entries: len(q.Weights), Bound: DiscriminatorBound, Rate: a.Rate,
	}})
	r.Number = number
	return r
}

// Read reads the release of a round for n weights, in a run with this many teachers.
func (a *GradientAsker) Read(
	release *conclavev1.Release, n int, multiplier float64, teachers int,
) (*DiscriminatorAnswer, error) {
	sum := release.GetSum()
	if sum == nil || len(sum.Values) != n || sum.Scale != DiscriminatorBound || release.GetTeachers() == 0 {
		return nil, fmt.Errorf("the release of round %d does not match its %d weights", release.GetRound(), n)
	}
	out := &DiscriminatorAnswer{
		Sum: make([]float32, n), Noise: multiplier * a.Clip, Share: float64(release.Teachers) / float64(teachers),
		Paid: PaidBy(release),
	}
	for i, v := range sum.Values {
		out.Sum[i] = float32(float64(v) * a.Clip / DiscriminatorBound)
	}
	return out, nil
}
