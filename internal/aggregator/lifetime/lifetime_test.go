package lifetime

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/conclave-dp/conclave/internal/aggregator/fault"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// A stop starts no round and waits for open ones: up to the patience for their answers, and without limit for their
// charges.
func TestDrainWaitsForRounds(t *testing.T) {
	l := New()
	testkit.Must(t, l.Begin())
	testkit.Must(t, l.Begin())
	drained := make(chan struct{})
	go func() {
		l.Drain(20 * time.Millisecond)
		close(drained)
	}()
	testkit.Receive(t, l.Stopping())
	if err := l.Begin(); !errors.Is(err, fault.ErrStopping) {
		t.Errorf("a round begins while the server stops: %v", err)
	}
	testkit.Receive(t, l.Draining().Done())
	l.End()
	select {
	case <-drained:
		t.Fatal("drained with a round that is open")
	case <-time.After(20 * time.Millisecond):
	}
	if l.Leading().Err() != nil {
		t.Error("a round that is being charged is cut off")
	}
	l.End()
	testkit.Receive(t, drained)
	l.Drain(time.Hour) // a second call returns at once
}

// The end of leadership ends everything else, with the same cause.
func TestTheEndOfLeadershipEndsAll(t *testing.T) {
	l := New()
	testkit.Must(t, l.Begin())
	l.EndLeading(fault.ErrLeadershipLost)
	l.EndLeading(errors.New("closed"))
	if err := l.Begin(); !errors.Is(err, fault.ErrLeadershipLost) {
		t.Errorf("a round begins without leadership: %v", err)
	}
	if err := context.Cause(l.Draining()); !errors.Is(err, fault.ErrLeadershipLost) {
		t.Errorf("collecting ends for %v", err)
	}
	l.End()
	l.Drain(time.Hour)
}
