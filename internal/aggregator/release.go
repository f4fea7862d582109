package aggregator

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/coordinator"
	"github.com/conclave-dp/conclave/gnmax"
	"github.com/conclave-dp/conclave/internal/auditlog"
	"github.com/conclave-dp/conclave/internal/ledger"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// chargeTimeout bounds the writing of a charge. The round then ends with an
// error; whether it was charged shows when it is asked again.
const chargeTimeout = 30 * time.Second

// launch begins to answer a round on a goroutine of its own. The error says that the
// server is stopping, or does not lead any more.
func (s *Server) launch(e *execution) error {
	s.executionsMu.Lock()
	if err := s.stopped(); err != nil {
		s.executionsMu.Unlock()
		e.dataset.unregister(e)
		return err
	}
	s.executions.Add(1)
	s.executionsMu.Unlock()
	e.dataset.register(e)
	e.dataset.open.Add(1)
	go func() {
		defer s.executions.Done()
		defer e.dataset.open.Add(-1)
		release, err := s.execute(e)
		e.dataset.unregister(e)
		if werr := e.withdraw(); werr != nil {
			s.log.Error("withdraw a round", zap.Error(werr))
		}
		if err != nil {
			s.log.Warn("round ended without a release", zap.String("run", e.key.run),
				zap.Uint64("round", e.key.number), zap.Error(err))
			s.metrics.ended.WithLabelValues(reason(err)).Inc()
			s.auditRefusal(e.asker, err, auditlog.Entry{Dataset: e.dataset.record.Name, Run: e.key.run, Round: &e.key.number, Purpose: e.kind()})
		}
		e.spans.end(release, err)
		e.finish(release, err)
		if c := e.charged; c != nil { // the student goes on meanwhile
			s.log.Info("released", zap.String("run", e.key.run), zap.Uint64("round", e.key.number),
				zap.String("purpose", c.entry.Kind), zap.Uint32("teachers", release.Teachers),
				zap.Any("events", c.entry.Events), zap.Float64("epsilon_spent", c.entry.EpsilonSpent),
				zap.Uint64("ledger_seq", c.entry.Seq), zap.Duration("took", c.took))
		}
	}()
	return nil
}

// charged is what a release cost.
type charged struct {
	entry ledger.Entry
	took  time.Duration
}

// stopped is why no round may begin any more, nil while rounds may.
func (s *Server) stopped() error {
	select {
	case <-s.draining.Done():
		return context.Cause(s.draining)
	case <-s.stopping:
		return errStopping
	default:
		return nil
	}
}

func (s *Server) execute(e *execution) (*conclavev1.Release, error) {
	if g, ok := e.question.(gatherer); ok {
		if err := g.gather(s, e); err != nil {
			return nil, err
		}
	} else if err := e.collect(s.draining, s.stopping); err != nil {
		return nil, err
	}
	_ = s.standings.guard.Reload() // as of this moment; what is wrong with it the watch says
	if err := e.disowned(); err != nil {
		return nil, err
	}
	if e.released != nil {
		s.hold(e)
		return e.released, nil
	}
	return s.charge(e)
}

// gatherer is a question whose counts are not the sum of one answer of each node.
type gatherer interface {
	gather(s *Server, e *execution) error
}

// charge draws the release, pays for it and returns it as it is stored. From
// here on the round is not given up when the server stops; it ends when
// leadership does.
func (s *Server) charge(e *execution) (*conclavev1.Release, error) {
	e.spans.enter("release")
	release := e.newRelease()
	q := e.question
	if distort := s.options.distort; distort != nil {
		q = distort(q)
	}
	use := e.worst()
	var err error
	if use.Answered, err = q.answer(gnmax.NewSource(), e.counts, release); err != nil {
		return nil, fmt.Errorf("round %d of run %q: %w", e.key.number, e.key.run, err)
	}
	if undercharge := s.options.undercharge; undercharge != nil {
		use = undercharge(use)
	}
	raw, err := marshalStable(release)
	if err != nil {
		return nil, fmt.Errorf("round %d of run %q: %w", e.key.number, e.key.run, err)
	}
	if hook := s.options.Hooks.Votes; hook != nil && release.GetVotes() != nil {
		hook(e.key.run, e.key.number, e.counts, release.GetVotes())
	}
	if hook := s.options.Hooks.Sums; hook != nil && release.GetSum() != nil {
		hook(e.key.run, e.key.number, e.counts)
	}
	if hook := s.options.Hooks.BeforeCharge; hook != nil {
		hook(e.key.run, e.key.number)
	}
	ctx, cancel := context.WithTimeout(s.leading, chargeTimeout)
	defer cancel()
	defer e.dataset.spent.charges.Add(1) // also where nobody knows whether it was charged
	stored, entry, err := s.store.Charge(ctx, s.lead, coordinator.Charge{
		Run:     e.key.run,
		Round:   e.key.number,
		Use:     use,
		Entries: len(release.GetSum().GetValues()),
		Release: raw,
		Forget:  e.forget,
	})
	if err != nil {
		if s.leading.Err() != nil {
			err = context.Cause(s.leading)
		}
		return nil, fmt.Errorf("charge round %d of run %q: %w", e.key.number, e.key.run, err)
	}
	s.hold(e)
	if hook := s.options.Hooks.AfterCharge; hook != nil {
		hook(e.key.run, e.key.number)
	}
	if !bytes.Equal(stored, raw) {
		return s.releasedBefore(e, stored, entry)
	}
	e.charged = &charged{entry, time.Since(e.began)}
	s.metrics.charged(e, entry)
	// It is paid for and stored, so it goes out whether the line is written or not; if
	// not, it is the last.
	_ = s.audit(e.asker, auditlog.Entry{
		Event: auditlog.Released, Dataset: e.dataset.record.Name, Run: e.key.run, Round: &e.key.number, Teachers: release.Teachers,
		Purpose: entry.Kind, Events: entry.Events, EpsilonSpent: entry.EpsilonSpent, LedgerSeq: entry.Seq, LedgerHash: entry.Hash,
	})
	complete(release, entry)
	return release, nil
}

// releasedBefore hands out the answer of a round that another process charged while this
// one collected answers, such as the next leader while this one was asleep. What was drawn
// here is forgotten.
func (s *Server) releasedBefore(e *execution, stored []byte, entry ledger.Entry) (*conclavev1.Release, error) {
	release, err := readRelease(stored, entry)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(release.QuestionSha256, e.digest[:]) {
		return nil, otherQuestion(e.key)
	}
	s.log.Info("round was released before", zap.String("run", e.key.run), zap.Uint64("round", e.key.number),
		zap.Uint64("ledger_seq", entry.Seq), zap.Int64("fence", entry.Fence))
	s.metrics.repeated.Inc()
	if s.audit(e.asker, auditlog.Entry{Event: auditlog.Repeated, Run: e.key.run, Round: &e.key.number, LedgerHash: entry.Hash}) != nil {
		return nil, errAudit
	}
	return release, nil
}

// otherQuestion refuses a round whose answer does not belong to the records that are asked
// about now.
func otherQuestion(key roundKey) error {
	return refusedf("round %d of run %q was released for another question; go on from the checkpoint that asked it, or open a run of another name",
		key.number, key.run)
}

// stored returns the release of a round that was charged before, nil when
// there is none, and its run. A round that was released for another question is refused: its
// answers do not belong to the records that are asked about now.
func (s *Server) stored(ctx context.Context, p *payload) (*conclavev1.Release, coordinator.Run, error) {
	standing, err := s.store.Standing(ctx, s.lead, p.key.run, p.key.number)
	if err != nil {
		return nil, coordinator.Run{}, fmt.Errorf("read the rounds of run %q: %w", p.key.run, err)
	}
	if !standing.Found {
		return nil, standing.Run, nil
	}
	release, err := readRelease(standing.Release, standing.Entry)
	if err != nil {
		return nil, coordinator.Run{}, err
	}
	if !bytes.Equal(release.QuestionSha256, p.digest[:]) {
		return nil, coordinator.Run{}, otherQuestion(p.key)
	}
	return release, standing.Run, nil
}

// readRelease reads and completes a stored release.
func readRelease(raw []byte, entry ledger.Entry) (*conclavev1.Release, error) {
	release := new(conclavev1.Release)
	if err := proto.Unmarshal(raw, release); err != nil {
		return nil, fmt.Errorf("read a stored release: %w", err)
	}
	complete(release, entry)
	return release, nil
}

// complete gives a release the fields of the ledger entry that paid for it. They are
// not part of what is stored, because the entry holds the hash of that.
func complete(release *conclavev1.Release, entry ledger.Entry) {
	release.EpsilonSpent = entry.EpsilonSpent
	release.LedgerSeq = entry.Seq
	release.LedgerHash = entry.Hash
}
