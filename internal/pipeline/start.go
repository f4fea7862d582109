package pipeline

import (
	"context"
	"math/rand/v2"

	"github.com/conclave-dp/conclave/internal/nn/safetensors"
)

// Start is what a student begins with where part of the budget buys it more than the
// class counts: a release in round 0 that its generator is fitted to before it learns of
// anything else. What was released stays with it, for nothing more has to be paid for it.
type Start interface {
	// Begin asks in round 0, unless notes say that this was done, writes the class counts
	// to notes, and fits the learner. It calls keep now and then, and goes on after a
	// restore where it was.
	Begin(ctx context.Context, notes *Learned, l *Learner, rng *rand.Rand, keep func() error) error
	// Hold takes a step that keeps the generator close to the release.
	Hold(l *Learner, rng *rand.Rand)
	// Tensors adds its state to a checkpoint's, Restore takes it from there. Notes are
	// those of the same checkpoint.
	Tensors(set *safetensors.Set)
	Restore(set *safetensors.Set, notes *Learned) error
}

// Begin lets the start begin, or asks for the class counts where it is nil. The learner's
// step size is its own again after it, as it is after a restore.
func (l *Learned) Begin(ctx context.Context, start Start, oracle CountOracle, classes int, learner *Learner,
	rng *rand.Rand, keep func() error) error {
	if start == nil {
		return l.AskClassCounts(ctx, oracle, classes)
	}
	rate := learner.Rate()
	defer learner.SetRate(rate)
	return start.Begin(ctx, l, learner, rng, keep)
}
