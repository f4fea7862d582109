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

// chargeTimeout bounds the writing of a charge. The round then ends with an error; whether it
// was charged shows when it is asked again.
const chargeTimeout = 30 * time.Second

// charge is what a release cost.
type charge struct {
	entry ledger.Entry
	took  time.Duration
}

// launch makes e the open round of its run, and begins to answer it on a goroutine of its own.
// The error says that the server is stopping, or no longer leads. Callers hold the run's turn.
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
			r.open() // which forgets this one
			r.turn.Unlock()
		}
		if c := e.charged; c != nil { // the student goes on meanwhile
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
	_ = rs.Reload() // as of this moment; what is wrong with it the watch says
	if err := e.revoked(); err != nil {
		return nil, err
	}
	if e.released != nil {
		rs.keep(e)
		return e.released, nil
	}
	return rs.charge(e)
}

// charge draws the release, pays for it and returns it as it is stored. From here on the round
// is not given up when the server stops; it ends when leadership does.
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
	defer e.dataset.charges.Add(1) // also where nobody knows whether it was charged
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
	// Before anything that the student can see: see feed.
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
	// It is paid for and stored, so it goes out whether the line is written or not; if not, it
	// is the last.
	_ = rs.Audit.Write(e.asker, e.entry(auditlog.Entry{
		Event: auditlog.Released, Teachers: release.Teachers, Purpose: entry.Kind,
		Charge: auditlog.Charge{
			Events: entry.Events, EpsilonSpent: entry.EpsilonSpent, LedgerSeq: entry.Seq, LedgerHash: entry.Hash,
		},
	}))
	complete(release, entry)
	return release, nil
}

// draw draws the release of the counts, and says how much of the plan it uses.
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
	// What is selected by is scaled by those whose sums there are. Who is among them is not told.
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

// releasedBefore hands out the answer of a round that another process charged while this one
// collected answers, such as the next leader while this one was asleep. What was drawn here is
// forgotten.
func (rs *Rounds) releasedBefore(e *Execution, stored []byte, entry ledger.Entry) (*conclavev1.Release, error) {
	release, err := readRelease(stored, entry)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(release.QuestionSha256, e.digest[:]) {
		return nil, otherQuestion(e.key)
	}
	rs.Log.Info("round was released before", zap.String("run", e.key.Run), zap.Uint64("round", e.key.Number),
		zap.Uint64("ledger_seq", entry.Seq), zap.Int64("fence", entry.Fence))
	if err := rs.Repeated(e.asker, e.key, release); err != nil {
		return nil, err
	}
	return release, nil
}

// Repeated counts a release that is handed out again, and writes down to whom.
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
