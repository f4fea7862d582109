package dial

import (
	"context"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// Pauses are the times between attempts to do what an aggregator that is away
// cannot answer: at most firstPause, then longer by growth up to most. Half of a
// pause is random, so that the nodes of a large cluster do not all come back at once.
func Pauses(most time.Duration) *backoff.ExponentialBackOff {
	return &backoff.ExponentialBackOff{ // around three quarters of a pause, by a third of that
		InitialInterval: firstPause * 3 / 4, RandomizationFactor: 1. / 3,
		Multiplier: growth, MaxInterval: max(firstPause, most) * 3 / 4,
	}
}

// Wait waits for a pause, or until ctx ends.
func Wait(ctx context.Context, pause time.Duration) {
	select {
	case <-time.After(pause):
	case <-ctx.Done():
	}
}
