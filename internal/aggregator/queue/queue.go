// Package queue has the submitted runs and gives them to workers. Durable state is written to etcd first. Only the
// leader writes it, so the [Queue] is a true copy. Which workers are connected, and their progress, is only in
// memory.
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
	Grace    time.Duration // how long a disconnected worker keeps its run
	// Patience is how long a worker may wait for a quorum while other runs wait for a worker.
	Patience time.Duration
	MostRuns int // how many runs a student may ever open or, here, leave unopened
	// MostEntries bounds the plan entries of these runs per student and dataset.
	MostEntries int
}

// Queue is the leader's copy of the submitted runs.
type Queue struct {
	Options
	turn lifetime.Turn // held to change a run's state
	// stale says that a change may have happened without an answer, so the copy must be reloaded before the next
	// change. Guarded by turn.
	stale bool
	// emptied has for each dataset the process that takes no new run until it has none; see apart. Guarded by turn.
	emptied map[string]process

	mu     sync.Mutex
	byName map[string]*entry
	// changed is closed and replaced at each change that others may wait for.
	changed chan struct{}
	// waiting counts the waiting workers by dataset.
	waiting map[string]int
}

// entry is a queued run. Its fields are guarded by Queue.mu.
type entry struct {
	// record has no spec and plan once the run has ended, because nobody needs them.
	record coordinator.Submission
	// From the spec.
	teachers uint32
	purpose  string
	study    *study.Block
	// claim is the current worker's claim, nil after a loss.
	claim    *Claim
	lost     time.Time
	progress *conclavev1.RunProgress
	// halted is when its worker began to wait for a quorum, zero if it does not. behind is its place since it last
	// gave up its worker for that.
	halted time.Time
	behind int64
	// note says what a waiting run waits for.
	note string
}

// New loads the queue as the last leader left it. Workers can return within their grace period.
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

// took applies the result of a change, or marks the copy stale if the result is unknown. Callers hold the queue's
// turn.
func (q *Queue) took(record coordinator.Submission, err error) error {
	if err != nil {
		q.stale = true
		return err
	}
	q.set(record)
	return nil
}

// set applies a run's state once etcd has it.
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

// wake notifies everybody who waits for a change. Callers hold q.mu.
func (q *Queue) wake() {
	close(q.changed)
	q.changed = make(chan struct{})
}

// Poke makes the queue check waiting runs again, because a run closed.
func (q *Queue) Poke() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.wake()
}

// Changed returns a channel that is closed at the next change.
func (q *Queue) Changed() <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.changed
}

// get returns the current state of a queued run.
func (q *Queue) get(name string) (entry, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if e := q.byName[name]; e != nil {
		return *e, true
	}
	return entry{}, false
}

// list returns the runs of a dataset, or of all if it is empty, in order of submission.
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

// note records what a run waits for.
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
