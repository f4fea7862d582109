package run

import (
	"time"

	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/pipeline/plan"
)

// keeper saves a student's state. A student with few questions saves all of them before they are asked. One that
// takes thousands of steps saves only at intervals, and repeats the steps in between after a crash: its questions
// follow from its state, and their answers are stored.
type keeper struct {
	save    func() error
	learner pipeline.Student
	ask     *asker
	plan    *plan.Plan
	last    int // the number of rounds

	saved  time.Time
	rounds int // rounds learned when it was last saved
	taking time.Duration
}

// A student that saves checkpoints spends at most a twentieth of its time on them, and a crash loses about this
// much work.
const (
	savingShare = 20
	savedEvery  = 5 * time.Second
)

func (k *keeper) keep() error {
	if !k.plan.Sampled() {
		return k.save()
	}
	rounds, begun := k.learner.Rounds(), time.Now()
	switch {
	case rounds == k.rounds && !k.saved.IsZero(): // already saved
		return nil
	case rounds < k.last && begun.Sub(k.saved) < max(savedEvery, savingShare*k.taking):
		return nil
	}
	if err := k.save(); err != nil {
		return err
	}
	k.saved, k.rounds = time.Now(), rounds
	k.taking = k.saved.Sub(begun)
	k.ask.forget = uint64(rounds) + 1 // round 0 has the class counts
	return nil
}
