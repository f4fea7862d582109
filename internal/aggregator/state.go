package aggregator

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/conclave-dp/conclave/internal/aggregator/metrics"
)

// readyTimeout bounds what a probe or a scrape asks of etcd.
const readyTimeout = 2 * time.Second

// Phases of a server, in their order. What a phase needs of the Server is set before the
// phase is, and never changes.
const (
	starting int32 = iota
	standby        // store is set
	leads          // lead and datasets are set
	stopping
)

// phase is a server's.
type phase struct{ atomic.Int32 }

// reach moves on to a phase, never back.
func (p *phase) reach(next int32) {
	for {
		now := p.Load()
		if now >= next || p.CompareAndSwap(now, next) {
			return
		}
	}
}

// leads says whether this server is the leader and not told to stop.
func (s *Server) leads() bool { return s.phase.Load() == leads && s.lead.Context().Err() == nil }

// ready says in what state the server is, or why it is not ready: nobody answers
// etcd's questions, nobody leads, it stops, its audit log cannot be written, or it could let
// nobody in. A standby is ready while somebody leads.
func (s *Server) ready(ctx context.Context) (string, error) {
	now := s.phase.Load()
	switch now {
	case starting:
		return "", errors.New("starting")
	case stopping:
		return "", errors.New("stopping")
	}
	if err := s.auditLog.Log.Check(); err != nil {
		return "", err
	}
	if err := s.standings.guard.Reload(); err != nil {
		return "", fmt.Errorf("nobody new is let in: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	leader, err := s.store.Leader(ctx)
	switch {
	case err != nil:
		return "", err
	case now == leads && s.lead.Context().Err() != nil:
		return "", context.Cause(s.lead.Context())
	case now == leads:
		return "leader", nil
	case leader == "":
		return "", errors.New("nobody leads")
	}
	return fmt.Sprintf("standby of %s", leader), nil
}

// healthService is grpc.health.v1 on the port of nodes and students: SERVING while this
// server leads, NOT_SERVING from when it is told to stop. A standby does not listen.
// Watches end with the server, which would wait for them otherwise.
type healthService struct {
	*health.Server
	draining context.Context
}

func (h healthService) Watch(q *healthpb.HealthCheckRequest, stream healthpb.Health_WatchServer) error {
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	defer context.AfterFunc(h.draining, cancel)()
	return h.Server.Watch(q, healthStream{stream, ctx})
}

type healthStream struct {
	healthpb.Health_WatchServer
	ctx context.Context
}

func (s healthStream) Context() context.Context { return s.ctx }

// shown is the server's state for the metrics.
func (s *Server) shown() (leading bool, datasets []metrics.Dataset) {
	if !s.leads() {
		return false, nil
	}
	for name, d := range s.datasets {
		datasets = append(datasets, metrics.Dataset{
			Name: name, Nodes: len(d.Live()), Teachers: int(d.Teachers()), OpenRounds: int(d.open.Load()),
			Epsilon: d.record.Budget.Epsilon, Delta: d.record.Budget.Delta, Queued: s.queue.Counts(name),
			Spent: func() (float64, bool) { return s.spent(d) },
		})
	}
	return true, datasets
}

// spent is what a dataset has spent.
func (s *Server) spent(d *dataset) (epsilon float64, ok bool) {
	ctx, cancel := context.WithTimeout(s.leading, readyTimeout)
	defer cancel()
	epsilon, err := d.spent.Epsilon(d.spent.charges.Load(), func() (float64, error) {
		spending, err := s.store.Spent(ctx, d.record.Name)
		if err != nil {
			return 0, err
		}
		return spending.EpsilonSpent()
	})
	if err != nil {
		s.log.Warn("what a dataset has spent is missing in the metrics", zap.String("dataset", d.record.Name), zap.Error(err))
	}
	return epsilon, err == nil
}
