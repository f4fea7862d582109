package pipeline

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/internal/discriminator"
	"github.com/conclave-dp/conclave/internal/nn/safetensors"
	"github.com/conclave-dp/conclave/internal/question/questiontest"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// The rounds as they are sent to nodes.
func TestDiscriminatorRounds(t *testing.T) {
	a := GradientAsker{
		Spec: discriminator.Spec{Kind: discriminator.Dense, Layers: 3, Features: 2},
		Loss: conclavev1.DiscriminatorSum_LOSS_LOGISTIC,
		Rate: 0.25, Clip: 2,
	}
	q := &DiscriminatorQuestion{Weights: []float32{1, -2, 0.5}}
	want := &conclavev1.DiscriminatorSum{
		Discriminator: a.Spec.Describe(), Weights: safetensors.Bytes(q.Weights),
		Loss: conclavev1.DiscriminatorSum_LOSS_LOGISTIC, Rate: 0.25, Clip: 2, Bound: 1 << 16,
	}
	r := a.Round(4, q)
	vector := &conclavev1.Vector{
		Entries: 3, Bound: 1 << 16, Norm: conclavev1.Vector_NORM_L2, Per: conclavev1.Vector_PER_UNIT, Rate: 0.25,
	}
	if r.Number != 4 || !questiontest.ParamsEqual(t, r, want) || !proto.Equal(r.GetSum(), vector) {
		t.Errorf("round %v, want %v", r, want)
	}
	q.Mean, q.Scale = []float32{1, 2, 3, 4}, []float32{5, 6, 7, 8}
	a.Nothing, want.Nothing = true, true
	shape := []uint32{2, 2}
	want.Mean, want.Scale = &conclavev1.Tensor{Shape: shape, Data: safetensors.Bytes(q.Mean)},
		&conclavev1.Tensor{Shape: shape, Data: safetensors.Bytes(q.Scale)}
	if r = a.Round(5, q); !questiontest.ParamsEqual(t, r, want) {
		t.Errorf("round %v, want %v", r, want)
	}
}

// A release becomes the sum in the units of gradients, with the size of its noise.
func TestDiscriminatorReleases(t *testing.T) {
	a := GradientAsker{Clip: 3}
	release := func(teachers uint32, scale uint64, values ...int64) *conclavev1.Release {
		return &conclavev1.Release{
			Round: 7, Teachers: teachers, LedgerHash: "hash", EpsilonSpent: 0.5,
			Answer: &conclavev1.Release_Sum{Sum: &conclavev1.NoisySum{Values: values, Scale: scale}},
		}
	}
	got, err := a.Read(release(30, 1<<16, 1<<16, -1<<15, 1<<36), 3, 1.5, 40)
	testkit.Must(t, err)
	want := &DiscriminatorAnswer{Sum: []float32{3, -1.5, 3 << 20}, Noise: 4.5, Share: 0.75,
		Paid: Paid{Receipt: "hash", Teachers: 30, EpsilonSpent: 0.5}}
	testkit.Same(t, "", want, got)
	votes := release(30, 1<<16, 1, 2, 3)
	votes.Answer = &conclavev1.Release_Votes{Votes: &conclavev1.NoisyVotes{Labels: []int32{1, 2, 3}}}
	for name, bad := range map[string]*conclavev1.Release{
		"a number less": release(30, 1<<16, 1, 2), "a number more": release(30, 1<<16, 1, 2, 3, 4),
		"another scale": release(30, 1<<15, 1, 2, 3),
		"no teachers":   release(0, 1<<16, 1, 2, 3), "votes": votes, "nothing": {Round: 7, Teachers: 30},
	} {
		if got, err := a.Read(bad, 3, 1.5, 40); err == nil ||
			!strings.Contains(err.Error(), "round 7 does not match its 3 weights") {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}
