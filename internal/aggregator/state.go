package aggregator

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/conclave-dp/conclave/internal/aggregator/metrics"
	"github.com/conclave-dp/conclave/internal/aggregator/round"
)

// readyTimeout bounds etcd requests of a probe or a scrape.
const readyTimeout = 2 * time.Second

// Phases of a server, in order. The fields of Server that a phase needs are set before the phase, and never change.
const (
	starting int32 = iota
	standby        // store is set
	leads          // lead and datasets are set
	stopping
)

// phase is the current phase of a server.
type phase struct{ atomic.Int32 }

// reach advances to a phase, never back.
func (p *phase) reach(next int32) {
	for {
		now := p.Load()
		if now >= next || p.CompareAndSwap(now, next) {
			return
		}
	}
}

// leads reports whether this server leads and is not stopping.
func (s *Server) leads() bool { return s.phase.Load() == leads && s.lead.Context().Err() == nil }

// ready returns the server's state, or why it is not ready: etcd does not answer, no aggregator leads, it is
// stopping, its audit log cannot be written, or it can accept no peer. A standby is ready while another aggregator
// leads.
func (s *Server) ready(ctx context.Context) (string, error) {
	now := s.phase.Load()
	switch now {
	case starting:
		return "", errors.New("starting")
	case stopping:
		return "", errors.New("stopping")
	}
	if err := s.audit.Log.Check(); err != nil {
		return "", err
	}
	if err := s.credentials.Reload(); err != nil {
		return "", fmt.Errorf("no new peers are accepted: %w", err)
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
		return "", errors.New("no aggregator leads")
	}
	return fmt.Sprintf("standby of %s", leader), nil
}

func (s *Server) shown() (leading bool, datasets []metrics.Dataset) {
	if !s.leads() {
		return false, nil
	}
	for name, d := range s.rounds.Datasets {
		datasets = append(datasets, metrics.Dataset{
			Name: name, Nodes: len(d.Live()), Teachers: int(d.Teachers()), OpenRounds: d.OpenRounds(),
			Epsilon: d.Record.Budget.Epsilon, Delta: d.Record.Budget.Delta, Queued: s.queue.Counts(name),
			Spent: func() (float64, bool) { return s.spent(d) },
		})
	}
	return true, datasets
}

func (s *Server) spent(d *round.Dataset) (epsilon float64, ok bool) {
	ctx, cancel := context.WithTimeout(s.life.Leading(), readyTimeout)
	defer cancel()
	epsilon, err := d.EpsilonSpent(func() (float64, error) {
		spending, err := s.store.Spent(ctx, d.Record.Name)
		if err != nil {
			return 0, err
		}
		return spending.EpsilonSpent()
	})
	if err != nil {
		s.log.Warn("could not read a dataset's spending for the metrics", zap.String("dataset", d.Record.Name),
			zap.Error(err))
	}
	return epsilon, err == nil
}
