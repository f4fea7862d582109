package pipeline

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/conclave-dp/conclave/internal/nn/safetensors"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition/encode"
	"github.com/conclave-dp/conclave/partition/partitiontest"
)

// stepping is a start that takes steps of its own size.
type stepping struct {
	rate float64
	err  error
}

func (s stepping) Begin(_ context.Context, notes *Learned, l *Learner, _ *rand.Rand, _ func() error) error {
	l.SetRate(s.rate)
	notes.Begun++
	return s.err
}
func (stepping) Hold(*Learner, *rand.Rand)                {}
func (stepping) Tensors(*safetensors.Set)                 {}
func (stepping) Restore(*safetensors.Set, *Learned) error { return nil }

// counting answers for the class counts.
type counting int

func (c *counting) ClassCounts(_ context.Context, round uint64, classes int) (*CountAnswer, error) {
	*c++
	return &CountAnswer{Counts: make([]float64, classes), Scale: 2, Receipt: "counts", Teachers: 3}, nil
}

// A start takes the place of the class counts, and leaves the learner's step size as it was:
// that is not kept in a checkpoint, so that a restored student would go on with another.
func TestBegin(t *testing.T) {
	s := partitiontest.Schema(t, testSchema)
	rng := rand.New(rand.NewPCG(1, 1))
	g, err := NewGenerator(encode.New(s), GeneratorSpec{Noise: 2, Hidden: 2, Layers: 1, Classes: 2}, rng)
	testkit.Must(t, err)
	nothing := func() error { return nil }
	l, oracle, over := NewLearner(g, 0.25), new(counting), errors.New("over")
	for _, want := range []error{nil, over} {
		var notes Learned
		if err := notes.Begin(t.Context(), stepping{0.5, want}, oracle, 2, l, rng, nothing); !errors.Is(err, want) {
			t.Error(err)
		}
		if l.Rate() != 0.25 || notes.Begun != 1 || *oracle != 0 || notes.Counts != nil {
			t.Errorf("step size %v, notes %+v, %d times asked", l.Rate(), notes, *oracle)
		}
	}
	var notes Learned
	for range 2 {
		if err := notes.Begin(t.Context(), nil, oracle, 2, l, rng, nothing); err != nil || *oracle != 1 ||
			len(notes.Counts) != 2 || notes.TeachersLeast != 3 {
			t.Errorf("%v, notes %+v, %d times asked", err, notes, *oracle)
		}
	}
}
