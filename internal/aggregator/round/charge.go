package round

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/conclave-dp/conclave/coordinator"
	"github.com/conclave-dp/conclave/gnmax"
	"github.com/conclave-dp/conclave/internal/aggregator/fault"
	"github.com/conclave-dp/conclave/internal/aggregator/payload"
	"github.com/conclave-dp/conclave/internal/aggregator/peer"
	"github.com/conclave-dp/conclave/internal/auditlog"
	"github.com/conclave-dp/conclave/internal/ledger"
	"github.com/conclave-dp/conclave/internal/privacy"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// chargeTimeout bounds the time to write a charge. After it, the round ends with an error; asking it again shows
// whether it was charged.
const chargeTimeout = 30 * time.Second

// charge is what a release cost.
type charge struct {
	entry ledger.Entry
	took  time.Duration
}

// launch makes e the open round of its run, and answers it on its own goroutine. It fails if the server is stopping
// or no longer leads. Callers hold the run's turn.
func (rs *Rounds) launch(r *run, e *Execution) (*Execution, error) {
	if err := rs.Lifetime.Begin(); err != nil {
		e.cancel()
		e.dataset.unregister(e)
		rs.giveRoom(e)
		return nil, err
	}
	e.dataset.register(e)
	e.dataset.open.Add(1)
	r.current = e
	go func() {
		defer rs.Lifetime.End()
		defer e.dataset.open.Add(-1)
		defer e.cancel()
		release, err := rs.execute(e)
		if e.released != nil && len(e.asked) > 0 {
			r.again.Add(1)
		}
		e.dataset.unregister(e)
		if werr := e.withdraw(); werr != nil {
			rs.Log.Error("withdraw a round", zap.Error(werr))
		}
		if err != nil {
			rs.Metrics.Ended(fault.Reason(err))
			if rs.Audit.Refusal(e.asker, err, e.entry(auditlog.Entry{Purpose: e.kind()})) {
				rs.Log.Warn("round ended without a release", zap.String("run", e.key.Run),
					zap.Uint64("round", e.key.Number), zap.Error(err))
			}
		}
		e.spans.end(release, err)
		e.drop()
		rs.giveRoom(e)
		e.finish(release, err)
		if r.turn.Lock(context.Background()) == nil {
			r.open() // which drops this one
			r.turn.Unlock()
		}
		if c := e.charged; c != nil { // the student continues meanwhile
			rs.Log.Info("released", zap.String("run", e.key.Run), zap.Uint64("round", e.key.Number),
				zap.String("purpose", c.entry.Kind), zap.Uint32("teachers", release.Teachers),
				zap.Any("events", c.entry.Events), zap.Float64("epsilon_spent", c.entry.EpsilonSpent),
				zap.Uint64("ledger_seq", c.entry.Seq), zap.Duration("took", c.took))
		}
	}()
	return e, nil
}

func (e *Execution) entry(about auditlog.Entry) auditlog.Entry {
	about.Dataset, about.Run, about.Round = e.dataset.Record.Name, e.key.Run, &e.key.Number
	return about
}

func (rs *Rounds) execute(e *Execution) (*conclavev1.Release, error) {
	if err := rs.gather(e); err != nil {
		return nil, err
	}
	_ = rs.Reload() // up to date as of now; the watch reports problems
	if err := e.revoked(); err != nil {
		return nil, err
	}
	if e.released != nil {
		rs.keep(e)
		return e.released, nil
	}
	return rs.charge(e)
}

// charge draws the release, pays for it and returns the stored form. From here on a stopping server finishes the
// round; only the end of leadership ends it.
func (rs *Rounds) charge(e *Execution) (*conclavev1.Release, error) {
	e.spans.enter("release")
	release, use, err := rs.draw(e)
	if err != nil {
		return nil, fmt.Errorf("round %d of run %q: %w", e.key.Number, e.key.Run, err)
	}
	raw, err := marshalStable(release)
	if err != nil {
		return nil, fmt.Errorf("round %d of run %q: %w", e.key.Number, e.key.Run, err)
	}
	if hook := rs.Hooks.BeforeCharge; hook != nil {
		hook(e.key.Run, e.key.Number)
	}
	leading := rs.Lifetime.Leading()
	ctx, cancel := context.WithTimeout(leading, chargeTimeout)
	defer cancel()
	defer e.dataset.charges.Add(1) // also if the outcome of the charge is unknown
	stored, entry, err := rs.Store.Charge(ctx, rs.Lead, coordinator.Charge{
		Question: e.asks(use),
		Entries:  len(release.GetSum().GetValues()),
		Release:  raw,
		Forget:   e.forget,
	})
	if err != nil {
		if leading.Err() != nil {
			err = context.Cause(leading)
		}
		return nil, fmt.Errorf("charge round %d of run %q: %w", e.key.Number, e.key.Run, err)
	}
	rs.keep(e)
	// Before the student can see anything: see feed.
	if err := rs.tellOf(ctx, e.dataset, e.key, entry); err != nil {
		return nil, err
	}
	if hook := rs.Hooks.AfterCharge; hook != nil {
		hook(e.key.Run, e.key.Number)
	}
	if !bytes.Equal(stored, raw) {
		return rs.releasedBefore(e, stored, entry)
	}
	e.charged = &charge{entry, time.Since(e.began)}
	rs.Metrics.Released(e.dataset.Record.Name, entry.Kind)
	if timed(e.question) {
		rs.Metrics.Took(entry.Kind, e.charged.took)
	}
	// The release is paid and stored, so it goes out even if the line cannot be written. Then it is the last one.
	_ = rs.Audit.Write(e.asker, e.entry(auditlog.Entry{
		Event: auditlog.Released, Teachers: release.Teachers, Purpose: entry.Kind,
		Charge: auditlog.Charge{
			Events: entry.Events, EpsilonSpent: entry.EpsilonSpent, LedgerSeq: entry.Seq, LedgerHash: entry.Hash,
		},
	}))
	complete(release, entry)
	return release, nil
}

// draw draws the release from the counts, and returns how much of the plan it uses.
func (rs *Rounds) draw(e *Execution) (release *conclavev1.Release, use privacy.Use, err error) {
	release = &conclavev1.Release{
		Run: e.key.Run, Round: e.key.Number, QuestionSha256: e.digest[:],
	}
	q := e.question
	if rs.Faults.Distort != nil {
		q = rs.Faults.Distort(q)
	}
	use = e.worst()
	took := e.took()
	// The selection is scaled by the teachers behind the sums. Which nodes those are is not revealed.
	release.Teachers = took.answered
	if use.Answered, err = q.Answer(gnmax.NewSource(), e.counts, release); err != nil {
		return nil, use, err
	}
	release.Teachers = took.part
	if rs.Faults.Undercharge != nil {
		use = rs.Faults.Undercharge(use)
	}
	if hook := rs.Hooks.Votes; hook != nil && release.GetVotes() != nil {
		hook(e.key.Run, e.key.Number, e.counts, release.GetVotes())
	}
	if hook := rs.Hooks.Sums; hook != nil && release.GetSum() != nil {
		hook(e.key.Run, e.key.Number, e.counts)
	}
	return release, use, nil
}

// releasedBefore returns the stored answer if another process charged the round while this one collected answers, for
// example the next leader while this process was suspended. It discards what was drawn here.
func (rs *Rounds) releasedBefore(e *Execution, stored []byte, entry ledger.Entry) (*conclavev1.Release, error) {
	release, err := readRelease(stored, entry)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(release.QuestionSha256, e.digest[:]) {
		return nil, otherQuestion(e.key)
	}
	rs.Log.Info("round was already released", zap.String("run", e.key.Run), zap.Uint64("round", e.key.Number),
		zap.Uint64("ledger_seq", entry.Seq), zap.Int64("fence", entry.Fence))
	if err := rs.Repeated(e.asker, e.key, release); err != nil {
		return nil, err
	}
	return release, nil
}

// Repeated counts a release that is returned again, and logs to whom.
func (rs *Rounds) Repeated(to peer.Caller, key payload.Key, release *conclavev1.Release) error {
	rs.Metrics.Repeated()
	err := rs.Audit.Write(to, auditlog.Entry{
		Event: auditlog.Repeated, Run: key.Run, Round: &key.Number,
		Charge: auditlog.Charge{LedgerHash: release.GetLedgerHash()},
	})
	if err != nil {
		return peer.ErrAudit
	}
	return nil
}
