package aggregator

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/conclave-dp/conclave/coordinator"
	"github.com/conclave-dp/conclave/internal/auditlog"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// queue is what the leader knows of the runs that were submitted. What lasts is in etcd, and
// changed there first; only the leader changes it, so that this is a true copy. Which worker
// is connected, and how far it is, is known here alone.
type queue struct {
	// turn holds a token while nobody changes a run's state. It is a channel and not a mutex
	// because a change asks etcd, and whoever waits may go away.
	turn chan struct{}
	// stale says that a change may have happened without an answer, under turn: the copy is
	// made anew before the next one.
	stale bool

	mu     sync.Mutex
	byName map[string]*queued
	// changed is closed and replaced when something changes that others may wait for.
	changed chan struct{}
	// waiting counts the workers that wait for a run, by dataset.
	waiting map[string]int
}

// queued is a run of the queue. Its fields change under queue.mu.
type queued struct {
	record coordinator.Submission
	// stream is that of the worker that holds it, nil while there is none since lost.
	stream   *claimStream
	lost     time.Time
	progress *conclavev1.RunProgress
	// note says what a run that waits waits for.
	note string
}

// claimStream is the stream of a worker that holds a run.
type claimStream struct {
	// ended is closed when the run is not the worker's any more, or another stream is.
	ended chan struct{}
	once  sync.Once
}

func (s *claimStream) end() {
	if s != nil {
		s.once.Do(func() { close(s.ended) })
	}
}

func newQueue() *queue {
	q := &queue{turn: make(chan struct{}, 1), byName: map[string]*queued{}, changed: make(chan struct{}), waiting: map[string]int{}}
	q.turn <- struct{}{}
	return q
}

// lockQueue takes the queue's turn.
func (s *Server) lockQueue(ctx context.Context) error {
	select {
	case <-s.queue.turn:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if !s.queue.stale {
		return nil
	}
	all, err := s.store.Submissions(ctx)
	if err != nil {
		s.queue.unlock()
		return err
	}
	for _, record := range all {
		s.queue.set(record)
	}
	s.queue.stale = false
	return nil
}

// took takes over what a change made of a run, or notes that nobody knows. Callers hold the
// queue's turn.
func (q *queue) took(record coordinator.Submission, err error) error {
	if err != nil {
		q.stale = true
		return err
	}
	q.set(record)
	return nil
}

func (q *queue) unlock() { q.turn <- struct{}{} }

// load reads the queue as the last leader left it. Workers have their grace to come back.
func (q *queue) load(ctx context.Context, store *coordinator.Store) error {
	all, err := store.Submissions(ctx)
	if err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, record := range all {
		q.byName[record.Name] = &queued{record: record, lost: time.Now()}
	}
	return nil
}

// set takes over how a run stands, after etcd has it.
func (q *queue) set(record coordinator.Submission) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.byName[record.Name]
	if e == nil {
		e = &queued{}
		q.byName[record.Name] = e
	}
	if e.record.Claim != record.Claim || record.State != coordinator.Running {
		e.stream.end()
		e.stream, e.lost, e.progress = nil, time.Now(), nil
	}
	e.record, e.note = record, ""
	q.wake()
}

// wake tells whoever waits for a change. Callers hold q.mu.
func (q *queue) wake() {
	close(q.changed)
	q.changed = make(chan struct{})
}

func (q *queue) poke() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.wake()
}

// awaitChange is a channel that is closed at the next change.
func (q *queue) awaitChange() <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.changed
}

// get returns a run of the queue as it is now.
func (q *queue) get(name string) (queued, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if e := q.byName[name]; e != nil {
		return *e, true
	}
	return queued{}, false
}

// list returns the runs of a dataset, or all where it is empty, in the order of their
// submission.
func (q *queue) list(dataset string) []queued {
	q.mu.Lock()
	defer q.mu.Unlock()
	var all []queued
	for _, e := range q.byName {
		if dataset == "" || e.record.Dataset == dataset {
			all = append(all, *e)
		}
	}
	slices.SortFunc(all, func(a, b queued) int { return cmp.Compare(a.record.Order, b.record.Order) })
	return all
}

// note says what a run waits for.
func (q *queue) note(name, note string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if e := q.byName[name]; e != nil && e.note != note {
		e.note = note
		q.wake()
	}
}

// connect makes stream that of the worker that holds a run with a claim; an earlier stream
// ends.
func (q *queue) connect(name, claim string, stream *claimStream) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.byName[name]
	if e == nil || e.record.State != coordinator.Running || e.record.Claim != claim {
		return false
	}
	e.stream.end()
	e.stream = stream
	q.wake()
	return true
}

// disconnect notes that a stream is gone.
func (q *queue) disconnect(name string, stream *claimStream) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if e := q.byName[name]; e != nil && e.stream == stream {
		e.stream, e.lost = nil, time.Now()
		q.wake()
	}
}

// report takes a worker's progress.
func (q *queue) report(name string, stream *claimStream, p *conclavev1.RunProgress) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if e := q.byName[name]; e != nil && e.stream == stream {
		e.progress = p // who watches looks every second
	}
}

// attend counts a worker that waits, until the function it returns is called.
func (q *queue) attend(dataset string) func() {
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
func (q *queue) workers(dataset string) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := q.waiting[dataset]
	for _, e := range q.byName {
		if e.record.Dataset == dataset && e.stream != nil {
			n++
		}
	}
	return n
}

// counts is the number of a dataset's runs in each state.
func (q *queue) counts(dataset string) map[string]int {
	counts := map[string]int{}
	for state := range states {
		counts[string(state)] = 0
	}
	for _, e := range q.list(dataset) {
		counts[string(e.record.State)]++
	}
	return counts
}

// lostFor returns the runs whose worker has been gone for longer than grace.
func (q *queue) lostFor(grace time.Duration) (lost []coordinator.Submission) {
	for _, e := range q.list("") {
		if e.record.State == coordinator.Running && e.stream == nil && time.Since(e.lost) > grace {
			lost = append(lost, e.record)
		}
	}
	return lost
}

// keepQueue gives runs back whose worker does not come back, until the server stops.
func (s *Server) keepQueue() {
	tick := time.NewTicker(min(time.Second, s.config.WorkerGrace/4))
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-s.stopping:
			return
		case <-s.leading.Done():
			return
		}
		for _, record := range s.queue.lostFor(s.config.WorkerGrace) {
			why := fmt.Sprintf("worker %q was not heard of for %v", record.Worker, s.config.WorkerGrace)
			if err := s.giveBack(caller{}, record.Name, record.Claim, why); err != nil {
				s.log.Warn("run of a worker that is gone not given back", zap.String("run", record.Name), zap.Error(err))
			}
		}
	}
}

// giveBack puts a run back into the queue, if it is still held with the claim. An open round
// goes on for a while, for the next worker to ask it again.
func (s *Server) giveBack(by caller, name, claim, why string) error {
	if err := s.lockQueue(s.leading); err != nil {
		return err
	}
	defer s.queue.unlock()
	if e, ok := s.queue.get(name); !ok || e.record.State != coordinator.Running || e.record.Claim != claim {
		return nil
	}
	record, err := s.store.GiveBack(s.leading, s.lead, name, claim, why)
	if err := s.queue.took(record, err); err != nil {
		return err
	}
	s.log.Info("run given back", zap.String("run", name), zap.String("worker", record.Worker), zap.String("reason", why))
	_ = s.audit(by, auditlog.Entry{Event: auditlog.RunReturned, Dataset: record.Dataset, Run: name, Reason: why})
	return nil
}

// endQueued ends a run of the queue. Callers hold the queue's turn.
func (s *Server) endQueued(ctx context.Context, by caller, name string, end coordinator.End) (coordinator.Submission, error) {
	closed, err := s.endRound(ctx, name)
	if err != nil {
		return coordinator.Submission{}, err
	}
	record, err := s.store.Finish(s.leading, s.lead, name, end)
	closed(err == nil)
	if err := s.queue.took(record, err); err != nil {
		return record, err
	}
	event := auditlog.RunFinished
	if end.State == coordinator.Cancelled {
		event = auditlog.RunCancelled
	}
	s.log.Info("run ended", zap.String("run", name), zap.String("state", string(end.State)), zap.String("reason", record.Reason))
	_ = s.audit(by, auditlog.Entry{Event: event, Dataset: record.Dataset, Run: name, Code: string(end.State), Reason: record.Reason})
	return record, nil
}

// endRound keeps rounds of a run from beginning and ends the one that is open, even if
// somebody waits for it. A round that is being charged is finished. The function it returns
// is told whether the run was closed, and lets others go on. A run that was not opened has
// no rounds.
func (s *Server) endRound(ctx context.Context, name string) (closed func(bool), err error) {
	r, err := s.run(ctx, name)
	if isNoRun(err) {
		return func(bool) {}, nil
	}
	if err != nil {
		return nil, err
	}
	if err := r.lock(ctx); err != nil {
		return nil, err
	}
	if open := r.openExecution(); open != nil {
		open.cancel()
		select {
		case <-open.done:
		case <-ctx.Done():
			r.unlock()
			return nil, context.Cause(ctx)
		}
	}
	return func(closed bool) {
		if closed {
			s.runClosed(r)
		}
		r.unlock()
	}, nil
}
