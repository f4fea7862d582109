// Package lifetime ends a server, in this order: rounds no longer begin, answers are no longer collected, and nothing
// is charged.
package lifetime

import (
	"context"
	"sync"
	"time"

	"github.com/conclave-dp/conclave/internal/aggregator/fault"
)

// Lifetime is the lifetime of one server. It may be used by several goroutines.
type Lifetime struct {
	leading, draining      context.Context
	endLeading, startDrain context.CancelCauseFunc

	stopping chan struct{}
	once     sync.Once
	mu       sync.Mutex // orders the begin of a round and the stop
	rounds   sync.WaitGroup

	// Streams are the goroutines of calls. The server waits for them when it has stopped.
	Streams sync.WaitGroup
}

// New returns the lifetime of a server that leads or may come to lead.
func New() *Lifetime {
	l := &Lifetime{stopping: make(chan struct{})}
	l.leading, l.endLeading = context.WithCancelCause(context.Background())
	l.draining, l.startDrain = context.WithCancelCause(l.leading)
	return l
}

// Leading ends when leadership does or the server is closed: from then on nothing may be
// charged.
func (l *Lifetime) Leading() context.Context { return l.leading }

// EndLeading ends Leading, and with it Draining. The first cause counts.
func (l *Lifetime) EndLeading(cause error) { l.endLeading(cause) }

// Draining ends with Leading, or earlier when a stopping server has waited long enough: from
// then on no answers are collected.
func (l *Lifetime) Draining() context.Context { return l.draining }

// Stopping is closed when the server is told to stop: from then on no round begins.
func (l *Lifetime) Stopping() <-chan struct{} { return l.stopping }

// Stopped is why no round may begin, nil while rounds may.
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

// Begin counts a round, which Drain waits for until End. The error says why none may begin.
func (l *Lifetime) Begin() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.Stopped(); err != nil {
		return err
	}
	l.rounds.Add(1)
	return nil
}

// End ends a round that Begin counted.
func (l *Lifetime) End() { l.rounds.Done() }

// Drain stops: rounds no longer begin, and those that are open have so long to collect
// answers. It returns when they have ended, charges included. It can be called several times.
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
