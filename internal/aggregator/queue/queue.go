// Package queue holds the runs that were submitted, and gives them to workers. What lasts is
// in etcd, and changed there first; only the leader changes it, so that the [Queue] is a true
// copy. Which worker is connected, and how far it is, is known here alone.
package queue

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/conclave-dp/conclave/coordinator"
	"github.com/conclave-dp/conclave/internal/aggregator/fault"
	"github.com/conclave-dp/conclave/internal/aggregator/lifetime"
	"github.com/conclave-dp/conclave/internal/aggregator/peer"
	"github.com/conclave-dp/conclave/internal/aggregator/round"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/study"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// Options are what a queue needs. All are required.
type Options struct {
	Store    *coordinator.Store
	Lead     *coordinator.Leadership
	Rounds   *round.Rounds
	Lifetime *lifetime.Lifetime
	Audit    peer.AuditLog
	Log      *zap.Logger
	Grace    time.Duration // how long a run stays with a worker that is not connected
	// Patience is how long a worker waits for a quorum with a run while others wait for a worker.
	Patience time.Duration
	MostRuns int // how many runs a student may ever have opened or, here, left unopened
	// MostEntries bounds the entries of the plans of such runs of a student on a dataset.
	MostEntries int
}

// Queue is what the leader knows of the runs that were submitted.
type Queue struct {
	Options
	turn lifetime.Turn // of who changes a run's state
	// stale says that a change may have happened without an answer, under turn: the copy is
	// made anew before the next one.
	stale bool
	// emptied is the process of each dataset that takes nothing more until it holds no run, under turn: see apart.
	emptied map[string]process

	mu     sync.Mutex
	byName map[string]*entry
	// changed is closed and replaced when something changes that others may wait for.
	changed chan struct{}
	// waiting counts the workers that wait for a run, by dataset.
	waiting map[string]int
}

// entry is a run of the queue. Its fields change under Queue.mu.
type entry struct {
	// record is without spec and plan once the run has ended: nobody asks for them.
	record coordinator.Submission
	// Of the spec.
	teachers uint32
	purpose  string
	study    *study.Block
	// claim is that of the worker that holds it, nil while there is none since lost.
	claim    *Claim
	lost     time.Time
	progress *conclavev1.RunProgress
	// halted is since when its worker waits for a quorum with it, zero where it does not; behind its place
	// since it last gave its worker away for that.
	halted time.Time
	behind int64
	// note says what a run that waits waits for.
	note string
}

// New reads the queue as the last leader left it. Workers have their grace to come back.
func New(ctx context.Context, o Options) (*Queue, error) {
	q := &Queue{
		Options: o,
		turn:    lifetime.NewTurn(),
		stale:   true,
		emptied: map[string]process{},
		byName:  map[string]*entry{},
		changed: make(chan struct{}),
		waiting: map[string]int{},
	}
	if err := q.lock(ctx); err != nil {
		return nil, err
	}
	q.turn.Unlock()
	return q, nil
}

// lock takes the queue's turn.
func (q *Queue) lock(ctx context.Context) error {
	if err := q.turn.Lock(ctx); err != nil || !q.stale {
		return err
	}
	all, err := q.Store.Submissions(ctx)
	if err != nil {
		q.turn.Unlock()
		return err
	}
	for _, record := range all {
		q.set(record)
	}
	q.stale = false
	return nil
}

// took takes over what a change made of a run, or remembers that nobody knows. Callers hold
// the queue's turn.
func (q *Queue) took(record coordinator.Submission, err error) error {
	if err != nil {
		q.stale = true
		return err
	}
	q.set(record)
	return nil
}

// set takes over how a run stands, after etcd has it.
func (q *Queue) set(record coordinator.Submission) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.byName[record.Name]
	if e == nil {
		e = &entry{}
		q.byName[record.Name] = e
	}
	if e.record.Claim != record.Claim || record.State != coordinator.Running {
		e.claim.end()
		e.claim, e.lost, e.progress, e.halted = nil, time.Now(), nil, time.Time{}
	}
	spec := specOf(record.Spec)
	e.record, e.note, e.teachers, e.purpose = record, "", spec.GetTeachers(), fault.Clean(spec.GetPurpose())
	e.study = study.FromWire(spec.GetStudy())
	if record.State.Final() {
		e.record.Spec, e.record.Plan = nil, nil
	}
	q.wake()
}

// wake tells everybody who waits for a change. Callers hold q.mu.
func (q *Queue) wake() {
	close(q.changed)
	q.changed = make(chan struct{})
}

// Poke has runs that wait looked at again, because a run closed.
func (q *Queue) Poke() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.wake()
}

// Changed is a channel that is closed at the next change.
func (q *Queue) Changed() <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.changed
}

// get returns a run of the queue as it is now.
func (q *Queue) get(name string) (entry, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if e := q.byName[name]; e != nil {
		return *e, true
	}
	return entry{}, false
}

// list returns the runs of a dataset, or all where it is empty, in the order of their
// submission.
func (q *Queue) list(dataset string) []entry {
	q.mu.Lock()
	defer q.mu.Unlock()
	var all []entry
	for _, e := range q.byName {
		if dataset == "" || e.record.Dataset == dataset {
			all = append(all, *e)
		}
	}
	slices.SortFunc(all, func(a, b entry) int { return cmp.Compare(a.record.Order, b.record.Order) })
	return all
}

func (q *Queue) in(dataset string, states ...coordinator.State) (found []coordinator.Submission) {
	for _, e := range q.list(dataset) {
		if slices.Contains(states, e.record.State) {
			found = append(found, e.record)
		}
	}
	return found
}

// note says what a run waits for.
func (q *Queue) note(name, note string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if e := q.byName[name]; e != nil && e.note != note {
		e.note = note
		q.wake()
	}
}

func isNoRun(err error) bool      { return errors.Is(err, coordinator.ErrNoRun) }
func isOverBudget(err error) bool { return errors.Is(err, privacy.ErrOverBudget) }
