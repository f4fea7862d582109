// Package lifetime stops a server in order: first no round begins, then no answer is collected, then nothing is
// charged.
package lifetime

import (
	"context"
	"sync"
	"time"

	"github.com/conclave-dp/conclave/internal/aggregator/fault"
)

// Lifetime is the lifetime of one server. It is safe for concurrent use.
type Lifetime struct {
	leading, draining      context.Context
	endLeading, startDrain context.CancelCauseFunc

	stopping chan struct{}
	once     sync.Once
	mu       sync.Mutex // orders the start of a round and the stop
	rounds   sync.WaitGroup

	// Streams counts the goroutines of calls. A stopping server waits for them.
	Streams sync.WaitGroup
}

// New returns the lifetime of a server that leads or waits to lead.
func New() *Lifetime {
	l := &Lifetime{stopping: make(chan struct{})}
	l.leading, l.endLeading = context.WithCancelCause(context.Background())
	l.draining, l.startDrain = context.WithCancelCause(l.leading)
	return l
}

// Leading ends when leadership ends or the server is closed. After that, nothing may be charged.
func (l *Lifetime) Leading() context.Context { return l.leading }

// EndLeading ends Leading and Draining. The first cause is kept.
func (l *Lifetime) EndLeading(cause error) { l.endLeading(cause) }

// Draining ends with Leading, or earlier when a stopping server has waited long enough. After that, no answers are
// collected.
func (l *Lifetime) Draining() context.Context { return l.draining }

// Stopping is closed when the server is told to stop. After that, no round begins.
func (l *Lifetime) Stopping() <-chan struct{} { return l.stopping }

// Stopped is why no round may begin, or nil.
func (l *Lifetime) Stopped() error {
	select {
	case <-l.draining.Done():
		return context.Cause(l.draining)
	case <-l.stopping:
		return fault.ErrStopping
	default:
		return nil
	}
}

// Begin registers a round; Drain waits until its End. The error says why no round may begin.
func (l *Lifetime) Begin() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.Stopped(); err != nil {
		return err
	}
	l.rounds.Add(1)
	return nil
}

// End ends a round that Begin registered.
func (l *Lifetime) End() { l.rounds.Done() }

// Drain stops new rounds and gives open ones this long to collect answers. It returns when they have ended, including
// their charges. It can be called several times.
func (l *Lifetime) Drain(patience time.Duration) {
	l.mu.Lock()
	l.once.Do(func() { close(l.stopping) })
	l.mu.Unlock()
	ended := make(chan struct{})
	go func() {
		l.rounds.Wait()
		close(ended)
	}()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-ended:
	case <-timer.C:
	case <-l.draining.Done():
	}
	l.startDrain(fault.ErrStopping)
	<-ended
}
