package queue

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/conclave-dp/conclave/coordinator"
	"github.com/conclave-dp/conclave/internal/aggregator/fault"
	"github.com/conclave-dp/conclave/internal/aggregator/peer"
	"github.com/conclave-dp/conclave/internal/auditlog"
	"github.com/conclave-dp/conclave/internal/study"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// roomEvery is how often a run that waits for budget is checked, apart from changes.
const roomEvery = 5 * time.Second

// ErrLeft reports that a waiting worker left.
var ErrLeft = errors.New("the worker left")

// Next waits for a run and gives it to a worker. It returns ErrLeft if ctx ends first.
func (q *Queue) Next(ctx context.Context, by *peer.Session, w *conclavev1.Worker) (*Claim, error) {
	defer q.attend(w.GetDataset())()
	look := time.NewTicker(roomEvery)
	defer look.Stop()
	for {
		changed := q.Changed()
		c, err := q.tryNext(ctx, w, by.Identity.Name)
		if c != nil {
			q.Log.Info("run claimed", zap.String("run", c.Record.Name), zap.String("worker", c.Record.Worker),
				zap.Uint32("claims", c.Record.Claims))
			_ = q.Audit.Write(by.Caller, auditlog.Entry{
				Event: auditlog.RunClaimed, Dataset: c.Record.Dataset, Run: c.Record.Name,
				Reason: "worker " + c.Record.Worker,
			})
		}
		if err != nil || c != nil {
			return c, err
		}
		select {
		case <-changed:
		case <-look.C:
		case <-ctx.Done():
			return nil, ErrLeft
		case <-q.Lifetime.Stopping():
			return nil, fault.ErrStopping
		case <-q.Lifetime.Leading().Done():
			return nil, context.Cause(q.Lifetime.Leading())
		}
	}
}

// tryNext gives the next run that can begin to a worker, or returns nil.
func (q *Queue) tryNext(ctx context.Context, w *conclavev1.Worker, holder string) (*Claim, error) {
	if err := q.lock(ctx); err != nil {
		if ctx.Err() != nil {
			err = ErrLeft
		}
		return nil, err
	}
	defer q.turn.Unlock()
	select {
	case <-q.Lifetime.Stopping():
		return nil, fault.ErrStopping
	default:
	}
	for _, e := range q.list(w.GetDataset()) {
		if e.record.State == coordinator.Running && e.claim == nil &&
			e.record.Worker == w.GetName() && e.record.Holder == holder {
			// The worker ended and returned within its grace period.
			why := fmt.Sprintf("worker %q ended, and started again", w.GetName())
			if err := q.lost(q.Lifetime.Leading(), e.record, why); err != nil {
				return nil, err
			}
		}
	}
	by := process{holder, processOf(w)}
	held := q.heldBy(w.GetDataset(), by)
	if slices.ContainsFunc(held, coordinator.Submission.Lost) {
		return nil, nil // a run that was lost runs alone in its process
	}
	next, err := q.first(ctx, w.GetDataset(), w, by, held)
	if err != nil || next == nil {
		return nil, err
	}
	id := make([]byte, 16)
	if _, err := rand.Read(id); err != nil {
		return nil, err
	}
	record, err := q.Store.Claim(q.Lifetime.Leading(), q.Lead, next.record.Name,
		coordinator.Holder{Worker: w.GetName(), Process: by.name, By: holder, Claim: hex.EncodeToString(id)})
	if err := q.took(record, err); err != nil {
		return nil, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.connect(q.byName[record.Name]), nil
}

// first returns the first run in line for a worker whose process has other runs, or nil. Callers hold the queue's
// turn.
func (q *Queue) first(ctx context.Context, dataset string, w *conclavev1.Worker, by process,
	held []coordinator.Submission) (*entry, error) {
	full := false
	for _, e := range q.line(dataset) {
		// A run that gave up its worker has budget reserved, which may be what others behind it wait for.
		if e.record.State != coordinator.Waiting || full && e.behind == 0 {
			continue
		}
		begins, err := q.mayBegin(ctx, e.record, w)
		switch {
		case err != nil:
			return nil, err
		case begins == passed:
			continue
		case begins == blocked:
			full = true // and so all runs behind it
			continue
		}
		switch q.apart(e.record, by, held) {
		case begin:
			return &e, nil
		case blocked:
			return nil, nil
		}
	}
	return nil, nil
}

// turn is what a waiting run means for a worker that asks.
type turn int

const (
	begin   turn = iota
	passed       // not for this worker, or ended
	blocked      // it must wait, and so must those behind it
)

// mayBegin decides whether a worker, or any worker if w is nil, may have a waiting run. A run that exceeds the
// dataset's remaining budget, or violates its study, ends here at no cost. One that only exceeds what others may
// still spend waits for them. Callers hold the queue's turn.
func (q *Queue) mayBegin(ctx context.Context, s coordinator.Submission, w *conclavev1.Worker) (turn, error) {
	r, err := q.Store.Run(ctx, s.Name)
	switch {
	case err == nil && r.Forgotten > 0 && w != nil && !slices.Contains(w.GetFolders(), s.Name):
		q.note(s.Name, fmt.Sprintf("waiting for a worker with the checkpoint of worker %q: answers before round %d "+
			"were dropped",
			s.Worker, r.Forgotten))
		return passed, nil
	case err == nil: // it was opened before, so its budget is reserved
		return begin, nil
	case !isNoRun(err):
		return passed, err
	}
	of := study.FromWire(specOf(s.Spec).GetStudy())
	if err := q.Rounds.Datasets[s.Dataset].CheckStudy(s.Name, of, q.Rounds.Now()); err != nil {
		_, err := q.end(ctx, peer.Caller{}, s.Name, coordinator.End{State: coordinator.Failed,
			Reason: fmt.Sprintf("nothing was spent: %v", err)})
		return passed, err
	}
	running := q.in(s.Dataset, coordinator.Running)
	room, err := q.room(ctx, s.Dataset)
	if err != nil {
		return passed, err
	}
	if err := room.Holds(s.Spending()); err != nil {
		end := coordinator.End{State: coordinator.Failed, Reason: err.Error()}
		if isOverBudget(err) {
			end.State, end.Reason = coordinator.OutOfBudget, fmt.Sprintf("nothing was spent: %v", err)
		}
		_, err := q.end(ctx, peer.Caller{}, s.Name, end)
		return passed, err
	}
	reserved, err := room.Reserved(room.Unopened(running)...)
	if err != nil {
		return passed, err
	}
	if err := room.Budget.RoomBeside(reserved, s.Budget, s.Plan); err != nil {
		q.note(s.Name, fmt.Sprintf("waiting for %s, which may still spend the budget that this run needs",
			openRuns(room, running)))
		return blocked, nil
	}
	return begin, nil
}

// openRuns names a few of a dataset's open or running runs.
func openRuns(room coordinator.Room, running []coordinator.Submission) string {
	var names []string
	for _, r := range room.Open {
		names = append(names, r.Name)
	}
	for _, s := range running {
		if !slices.Contains(names, s.Name) {
			names = append(names, s.Name)
		}
	}
	const most = 5
	more := ""
	if len(names) > most {
		names, more = names[:most], fmt.Sprintf(" and %d more", len(names)-most)
	}
	return "the open runs " + strings.Join(names, ", ") + more
}

// attend counts a waiting worker until the returned function is called.
func (q *Queue) attend(dataset string) func() {
	add := func(n int) {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.waiting[dataset] += n
		q.wake()
	}
	add(1)
	return func() { add(-1) }
}

// workers is the number of connected workers of a dataset.
func (q *Queue) workers(dataset string) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := q.waiting[dataset]
	for _, e := range q.byName {
		if e.record.Dataset == dataset && e.claim != nil {
			n++
		}
	}
	return n
}
