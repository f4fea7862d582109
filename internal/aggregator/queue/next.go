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

// roomEvery is how often a run that waits for room is looked at, besides after changes.
const roomEvery = 5 * time.Second

// ErrLeft is the end of a worker that waited.
var ErrLeft = errors.New("the worker left")

// Next waits until there is a run for a worker, and makes it that worker's. It returns ErrLeft
// when ctx ends first.
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

// tryNext makes the next run a worker's, if there is one that can begin; otherwise it returns
// nil.
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
			// It ended, and is back before its grace was over.
			why := fmt.Sprintf("worker %q ended, and began anew", w.GetName())
			if err := q.lost(q.Lifetime.Leading(), e.record, why); err != nil {
				return nil, err
			}
		}
	}
	by := process{holder, processOf(w)}
	held := q.heldBy(w.GetDataset(), by)
	if slices.ContainsFunc(held, coordinator.Submission.Lost) {
		return nil, nil // a run that was lost has the process to itself
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

// first returns the first run in line that a worker of a process may have, which holds others; nil where
// there is none. Callers hold the queue's turn.
func (q *Queue) first(ctx context.Context, dataset string, w *conclavev1.Worker, by process,
	held []coordinator.Submission) (*entry, error) {
	full := false
	for _, e := range q.line(dataset) {
		// What gave its worker away is reserved for, and may be what others wait for that do not fit.
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
			full = true // and with it all behind it
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

// How a run that waits stands to a worker that asks.
type turn int

const (
	begin   turn = iota
	passed       // not for this worker, or no longer
	blocked      // it has to wait, and others behind it
)

// mayBegin answers whether a worker may have a run that waits, any worker where w is nil. One that does not fit what is
// left of the dataset's budget, or its study, ends here, at no cost; one that does not fit beside what others
// may still spend waits for them. Callers hold the queue's turn.
func (q *Queue) mayBegin(ctx context.Context, s coordinator.Submission, w *conclavev1.Worker) (turn, error) {
	r, err := q.Store.Run(ctx, s.Name)
	switch {
	case err == nil && r.Forgotten > 0 && w != nil && !slices.Contains(w.GetFolders(), s.Name):
		q.note(s.Name, fmt.Sprintf("waits for a worker with the checkpoint of worker %q: answers before round %d are "+
			"gone",
			s.Worker, r.Forgotten))
		return passed, nil
	case err == nil: // it was opened before, and is reserved for
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
		q.note(s.Name, fmt.Sprintf("waits for %s: it would not fit beside what may still be spent there",
			openRuns(room, running)))
		return blocked, nil
	}
	return begin, nil
}

// openRuns names runs of a dataset that are open or running, a few of them.
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

// attend counts a worker that waits, until the function that it returns is called.
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

// workers is the number of workers of a dataset that are connected.
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
