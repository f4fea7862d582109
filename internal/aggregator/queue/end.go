package queue

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/conclave-dp/conclave/coordinator"
	"github.com/conclave-dp/conclave/internal/aggregator/fault"
	"github.com/conclave-dp/conclave/internal/aggregator/peer"
	"github.com/conclave-dp/conclave/internal/auditlog"
	"github.com/conclave-dp/conclave/internal/certs"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// Without these bounds, a run that kills each worker would stop the queue.
const (
	// mostLosses is how often a run may lose its worker without a release in between.
	mostLosses = 3
	// mostLossesEver is how often a run may lose its worker in total: a run that asks a question before it kills each
	// worker would otherwise go on forever. Workers that stop in order do not count.
	mostLossesEver = 20
)

// Keep returns runs to the queue until the server stops: runs whose worker does not come back, and waiting runs in
// whose place another could begin.
func (q *Queue) Keep() {
	tick := time.NewTicker(min(time.Second, q.Grace/4))
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-q.Lifetime.Stopping():
			return
		case <-q.Lifetime.Leading().Done():
			return
		}
		for _, record := range q.abandoned() {
			why := fmt.Sprintf("worker %q did not answer for %v", record.Worker, q.Grace)
			if err := q.lose(record, why); err != nil {
				q.Log.Warn("could not return the run of a lost worker to the queue", zap.String("run", record.Name),
					zap.Error(err))
			}
		}
		for dataset := range q.Rounds.Datasets {
			if err := q.yield(dataset); err != nil {
				q.Log.Warn("could not return a run that waits for a "+
					"quorum", zap.String("dataset", dataset), zap.Error(err))
			}
		}
	}
}

// abandoned returns the runs whose worker has been gone for longer than the grace.
func (q *Queue) abandoned() (lost []coordinator.Submission) {
	for _, e := range q.list("") {
		if e.record.State == coordinator.Running && e.claim == nil && time.Since(e.lost) > q.Grace {
			lost = append(lost, e.record)
		}
	}
	return lost
}

// giveBack returns a run to the queue if the claim still has it. An open round continues for a while, so that the
// next worker can ask it again.
func (q *Queue) giveBack(by peer.Caller, name, claim, why string) error {
	leading := q.Lifetime.Leading()
	if err := q.lock(leading); err != nil {
		return err
	}
	defer q.turn.Unlock()
	if !q.heldWith(name, claim) {
		return nil
	}
	record, err := q.Store.GiveBack(leading, q.Lead, name, claim, why)
	return q.returned(by, record, err, why)
}

// lose returns a run to the queue because its worker is gone, if the record's claim still has it.
func (q *Queue) lose(record coordinator.Submission, why string) error {
	leading := q.Lifetime.Leading()
	if err := q.lock(leading); err != nil {
		return err
	}
	defer q.turn.Unlock()
	if !q.heldWith(record.Name, record.Claim) {
		return nil
	}
	return q.lost(leading, record, why)
}

// lost is lose for callers that hold the queue's turn. A run that loses its worker too often ends.
func (q *Queue) lost(ctx context.Context, record coordinator.Submission, why string) error {
	run, err := q.Store.Run(ctx, record.Name)
	if err != nil && !isNoRun(err) {
		return err
	}
	why += "; from now on the run gets a worker process of its own"
	lost, err := q.Store.Lose(ctx, q.Lead, record.Name, record.Claim, why, run.Releases)
	if err := q.returned(peer.Caller{}, lost, err, why); err != nil {
		return err
	}
	times := ""
	switch {
	case lost.Losses >= mostLosses:
		times = fmt.Sprintf("%d times without a new release", lost.Losses)
	case lost.LossesEver >= mostLossesEver:
		times = fmt.Sprintf("%d times", lost.LossesEver)
	default:
		return nil
	}
	_, err = q.end(ctx, peer.Caller{}, record.Name, coordinator.End{State: coordinator.Failed, Reason: fmt.Sprintf(
		"its worker process ended %s, most recently worker %q: read the worker's log; it may need more memory or disk",
		times, record.Worker)})
	return err
}

// heldWith reports whether a worker has a run by this claim. Callers hold the queue's turn.
func (q *Queue) heldWith(name, claim string) bool {
	e, ok := q.get(name)
	return ok && e.record.State == coordinator.Running && e.record.Claim == claim
}

// returned records that a run is back in the queue. Callers hold the queue's turn.
func (q *Queue) returned(by peer.Caller, record coordinator.Submission, err error, why string) error {
	if err := q.took(record, err); err != nil {
		return err
	}
	q.Log.Info("run returned to the queue", zap.String("run", record.Name), zap.String("worker", record.Worker),
		zap.String("reason", why))
	_ = q.Audit.Write(by, auditlog.Entry{
		Event: auditlog.RunReturned, Dataset: record.Dataset, Run: record.Name, Reason: why,
	})
	return nil
}

// end ends a queued run. Callers hold the queue's turn.
func (q *Queue) end(ctx context.Context, by peer.Caller, name string, end coordinator.End) (
	coordinator.Submission, error) {
	closed, err := q.Rounds.EndRun(ctx, name)
	if err != nil {
		return coordinator.Submission{}, err
	}
	record, err := q.Store.Finish(q.Lifetime.Leading(), q.Lead, name, end)
	closed(err == nil)
	if err := q.took(record, err); err != nil {
		return record, err
	}
	event := auditlog.RunFinished
	if end.State == coordinator.Cancelled {
		event = auditlog.RunCancelled
	}
	q.Log.Info("run ended", zap.String("run", name), zap.String("state", string(end.State)),
		zap.String("reason", record.Reason))
	_ = q.Audit.Write(by, auditlog.Entry{
		Event: event, Dataset: record.Dataset, Run: name, Code: string(end.State), Reason: record.Reason,
	})
	return record, nil
}

// Finish ends a run with its worker's outcome.
func (q *Queue) Finish(ctx context.Context, by *peer.Session, run string, end coordinator.End) (
	*conclavev1.RunStatus, error) {
	if err := q.lock(ctx); err != nil {
		return nil, err
	}
	defer q.turn.Unlock()
	e, ok := q.get(run)
	if !ok {
		return nil, fmt.Errorf("%w in the queue: %q", coordinator.ErrNoRun, fault.Printable(run))
	}
	if e.record.Holder != by.Identity.Name {
		return nil, fault.Deniedf("run %q is not claimed by %q", run, by.Identity.Name)
	}
	if e.record.State == coordinator.Running && e.record.Claim != end.Claim {
		return nil, fault.Refusedf("run %q is claimed by worker %q, with another claim", run, e.record.Worker)
	}
	if _, err := q.end(ctx, by.Caller, run, end); err != nil {
		return nil, err
	}
	e, _ = q.get(run)
	return q.status(ctx, e)
}

// Cancel ends a run early, for an operator or the run's student. With force it also ends a run outside the queue.
func (q *Queue) Cancel(ctx context.Context, by *peer.Session, run string, force bool) (*conclavev1.RunStatus, error) {
	if err := q.lock(ctx); err != nil {
		return nil, err
	}
	defer q.turn.Unlock()
	who := by.Identity.Name
	e, ok := q.get(run)
	if !ok {
		return q.cancelDirect(ctx, by, run, force)
	}
	if err := q.MayRead(run, "", by.Identity); err != nil {
		return nil, err
	}
	switch {
	case e.record.State == coordinator.Cancelled:
	case e.record.State.Final():
		return nil, fault.Refusedf("run %q has already ended (%s)", run, e.record.State)
	case e.record.By != who && by.Identity.Role != certs.RoleOperator:
		return nil, fault.Deniedf("run %q was submitted by %q, not by %q; only its submitter or an operator can "+
			"cancel it", run, e.record.By, who)
	default:
		end := coordinator.End{State: coordinator.Cancelled, Reason: fmt.Sprintf("by %q", who)}
		if _, err := q.end(ctx, by.Caller, run, end); err != nil {
			return nil, err
		}
		e, _ = q.get(run)
	}
	return q.status(ctx, e)
}

// cancelDirect closes a run that a student opened outside the queue. The aggregator cannot know whether that run is
// still active. Callers hold the queue's turn, so that no run of the same name is submitted meanwhile.
func (q *Queue) cancelDirect(ctx context.Context, by *peer.Session, run string, force bool) (
	*conclavev1.RunStatus, error) {
	record, err := q.Store.Run(ctx, run)
	if err != nil {
		return nil, err
	}
	if err := q.MayRead(run, record.By, by.Identity); err != nil {
		return nil, err
	}
	if record.Closed {
		return statusOfRun(record), nil
	}
	if !force {
		opener := ""
		if record.By != "" {
			opener = fmt.Sprintf(" (%q)", record.By)
		}
		return nil, fault.Refusedf("run %q was opened without the queue%s, and its student may still be running; to "+
			"close it anyway, cancel it by force: then it gets no more answers, and its spending remains", run, opener)
	}
	closed, err := q.Rounds.EndRun(ctx, run)
	if err != nil {
		return nil, err
	}
	head, _, err := q.Store.CloseRun(q.Lifetime.Leading(), q.Lead, run, "", "")
	closed(err == nil)
	if err != nil {
		return nil, err
	}
	q.Poke()
	q.Log.Info("run cancelled", zap.String("run", run), zap.String("by", by.Identity.Name),
		zap.String("ledger_head", head))
	_ = q.Audit.Write(by.Caller, auditlog.Entry{
		Event: auditlog.RunCancelled, Dataset: record.Dataset, Run: run, Charge: auditlog.Charge{LedgerHash: head},
		Reason: "opened without the queue",
	})
	if record, err = q.Store.Run(ctx, run); err != nil {
		return nil, err
	}
	return statusOfRun(record), nil
}
