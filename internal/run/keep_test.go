package run

import (
	"errors"
	"testing"
	"time"

	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/pipeline/plan"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// counted is a student that only counts its rounds.
type counted struct {
	pipeline.Student
	done int
}

func (s *counted) Rounds() int { return s.done }

// keeperOf is a keeper that counts its saves.
func keeperOf(rate float64, last int) (k *keeper, learner *counted, saves *int) {
	learner, saves = &counted{}, new(int)
	planned := &plan.Plan{Rounds: last, Training: privacy.Planned{Mechanism: privacy.Event{Kind: privacy.Gaussian}}}
	if rate > 0 {
		planned.Training.Mechanism = privacy.Event{Kind: privacy.SubsampledGaussian, Rate: rate}
	}
	return &keeper{save: func() error {
		*saves++
		return nil
	}, learner: learner, ask: &asker{}, plan: planned, last: last}, learner, saves
}

func TestAKeeperSavesNowAndThen(t *testing.T) {
	k, learner, saves := keeperOf(0.5, 4)
	keep := func(done, saved int, forget uint64) {
		t.Helper()
		learner.done = done
		testkit.Must(t, k.keep())
		if *saves != saved || k.ask.forget != forget {
			t.Errorf("after step %d: %d times saved, rounds below %d forgotten; want %d, %d", done, *saves,
				k.ask.forget, saved, forget)
		}
	}
	keep(1, 1, 2) // at once
	keep(2, 1, 2) // not again so soon
	k.saved = k.saved.Add(-savedEvery)
	keep(2, 2, 3)
	// A save that took a second is not repeated for twenty.
	k.taking = time.Second
	k.saved = k.saved.Add(-19 * time.Second)
	keep(3, 2, 3)
	k.saved = k.saved.Add(-2 * time.Second)
	keep(3, 3, 4)
	keep(4, 4, 5) // at the end, always
	keep(4, 4, 5) // and not twice
}

// A run that ends before its plan because it is closed also saves at its end.
func TestAKeeperSavesAtTheEndOfAClosedRun(t *testing.T) {
	k, learner, saves := keeperOf(0.5, 2)
	k.plan.Rounds, k.saved, learner.done = 100, time.Now(), 1
	if err := k.keep(); err != nil || *saves != 0 || k.ask.forget != 0 {
		t.Errorf("%d times saved, %d, %v", *saves, k.ask.forget, err)
	}
	learner.done = 2
	if err := k.keep(); err != nil || *saves != 1 || k.ask.forget != 3 {
		t.Errorf("%d times saved, %d, %v", *saves, k.ask.forget, err)
	}
}

// Pipelines with other questions save each time, and forget nothing.
func TestAKeeperOfOtherPipelinesSavesAll(t *testing.T) {
	k, learner, saves := keeperOf(0, 9)
	for i := range 5 {
		learner.done = i
		if err := k.keep(); err != nil || *saves != i+1 || k.ask.forget != 0 {
			t.Errorf("step %d: %d times saved, rounds below %d forgotten, %v", i, *saves, k.ask.forget, err)
		}
	}
}

// An unsaved state forgets nothing, and the save is retried.
func TestAKeeperForgetsNothingThatItCouldNotSave(t *testing.T) {
	k, learner, _ := keeperOf(0.5, 9)
	full, fail := errors.New("no space left"), true
	k.save = func() error {
		if fail {
			return full
		}
		return nil
	}
	learner.done = 3
	for range 2 {
		if err := k.keep(); !errors.Is(err, full) || k.ask.forget != 0 || !k.saved.IsZero() {
			t.Errorf("%v, rounds below %d are forgotten", err, k.ask.forget)
		}
	}
	fail = false
	if err := k.keep(); err != nil || k.ask.forget != 4 {
		t.Errorf("%v, rounds below %d are forgotten", err, k.ask.forget)
	}
}
