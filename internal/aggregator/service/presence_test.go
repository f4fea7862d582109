package service

import (
	"context"
	"fmt"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/conclave-dp/conclave/coordinator"
	"github.com/conclave-dp/conclave/internal/aggregator/fault"
	"github.com/conclave-dp/conclave/internal/aggregator/lifetime"
	"github.com/conclave-dp/conclave/internal/aggregator/peer"
	"github.com/conclave-dp/conclave/internal/aggregator/round"
)

func TestPresenceNotNotedIsSaid(t *testing.T) {
	for _, tc := range []struct {
		err     error
		said    int
		stopped bool
	}{
		{nil, 0, false},
		{coordinator.ErrUnavailable, 1, false},
		{fmt.Errorf("mark node gone: %w", coordinator.ErrNotLeader), 0, false}, // deposed, and not told yet
		{coordinator.ErrUnavailable, 0, true},
	} {
		core, logged := observer.New(zap.InfoLevel)
		s := &nodes{Options: Options{Log: zap.New(core), Lifetime: lifetime.New()}}
		if tc.stopped {
			s.Lifetime.Drain(0)
		}
		s.markPresence(round.NewDataset(coordinator.Dataset{}, 1), peer.NewNode(nil),
			func(context.Context, *coordinator.Leadership, coordinator.Node) error { return tc.err })
		if n := logged.FilterMessage("presence of a node not noted").Len(); n != tc.said {
			t.Errorf("%v, stopped %v: said %d times, want %d", tc.err, tc.stopped, n, tc.said)
		}
		s.Lifetime.EndLeading(fault.ErrStopping)
	}
}
