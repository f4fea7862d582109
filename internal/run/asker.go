package run

import (
	"context"
	"errors"

	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/pipeline/plan"
	"github.com/conclave-dp/conclave/internal/student"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

type asker struct {
	client *student.Client
	run    string
	plan   *plan.Plan
	// teachers is the run's number of teachers; coin marks the baseline.
	teachers int
	coin     bool
	// forget is the first round that the student may ask again: its checkpoint has what it learned from earlier ones.
	forget uint64
	// waiting is called with the progress of a round while it waits.
	waiting func(*conclavev1.Progress)
}

func (a *asker) Teachers() int  { return a.teachers }
func (a *asker) Baseline() bool { return a.coin }

// fill sets a round's run, and the plan entry that pays for it.
func (a *asker) fill(stage string, r *conclavev1.Round) (err error) {
	r.Run = a.run
	r.Planned, err = a.plan.Pays(r.Kind, stage)
	return err
}

// Ask asks a round.
func (a *asker) Ask(ctx context.Context, stage string, r *conclavev1.Round) (*conclavev1.Release, error) {
	if err := a.fill(stage, r); err != nil {
		return nil, err
	}
	return a.client.Ask(ctx, r, student.Asking{Forget: a.forget}, a.waiting)
}

// AskReduced asks a round of a kind with a reducer. If the round is refused, the error matches
// [pipeline.ErrRefused].
func (a *asker) AskReduced(ctx context.Context, stage string, r *conclavev1.Round) (*conclavev1.Release, error) {
	if err := a.fill(stage, r); err != nil {
		return nil, err
	}
	release, err := a.client.Ask(ctx, r, student.Asking{Forget: a.forget, Reduced: true}, a.waiting)
	if errors.Is(err, student.ErrRefused) {
		err = refused{err}
	}
	return release, err
}

// maxLeaders bounds how often sums are asked again for one selection.
const maxLeaders = 20

// AskCached asks a round that uses the sums of another round. If the aggregator no longer caches these, it asks
// that round again. This repeats if another aggregator takes over meanwhile.
func (a *asker) AskCached(
	ctx context.Context, stage string, r, sums *conclavev1.Round,
) (*conclavev1.Release, error) {
	for asked := 0; ; asked++ {
		release, err := a.Ask(ctx, stage, r)
		if !errors.Is(err, student.ErrNotHeld) || asked == maxLeaders {
			return release, err
		}
		if _, err := a.client.Ask(ctx, sums, student.Asking{Hold: true}, a.waiting); err != nil {
			return nil, err
		}
	}
}

// refused is a [pipeline.ErrRefused].
type refused struct{ error }

func (r refused) Is(target error) bool { return target == pipeline.ErrRefused }
func (r refused) Unwrap() error        { return r.error }
