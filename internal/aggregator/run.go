package aggregator

import (
	"context"
	"errors"
	"sync"

	"go.uber.org/zap"

	"github.com/conclave-dp/conclave/coordinator"
)

// run is what the server keeps of a run while it is in use.
type run struct {
	spec    *runSpec
	dataset *dataset

	// turn holds a token while nobody decides about the run's rounds. It is
	// a channel and not a mutex because deciding reads etcd and a waiting
	// request may go away.
	turn chan struct{}
	// closed says that no new round may be asked, under turn. Only this
	// server closes runs while it leads.
	closed bool
	// current is the run's latest execution, under turn.
	current *execution

	// held are the sums that selections are made by.
	heldMu sync.Mutex
	held   *heldScores
}

func (r *run) lock(ctx context.Context) error {
	select {
	case <-r.turn:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// settle ends an open execution that nobody waits for; one that somebody
// waits for is an error. Callers hold the turn.
func (r *run) settle(ctx context.Context) error {
	open := r.openExecution()
	if open == nil {
		return nil
	}
	if !open.idle() {
		return refusedf("round %d of run %q is open and somebody waits for it; let it end first", open.key.number, open.key.run)
	}
	open.cancel()
	select {
	case <-open.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// runClosed notes that a run was closed. Callers hold its turn.
func (s *Server) runClosed(r *run) {
	r.closed = true
	r.letGo()
	name := r.spec.pb.GetName()
	if err := r.dataset.runOver(name, s.endOfLedger(r.dataset)); err != nil {
		s.log.Error("tell nodes that a run is over", zap.String("run", name), zap.Error(err))
	}
}

func (r *run) unlock() { r.turn <- struct{}{} }

// openExecution returns the execution that is not over yet, nil when there is
// none. Callers hold the turn.
func (r *run) openExecution() *execution {
	if r.current != nil && r.current.finished() {
		r.current = nil
	}
	return r.current
}

// runs holds the runs in use. A run's spec never changes, so it is read and
// parsed once.
type runs struct {
	mu     sync.Mutex
	byName map[string]*run
}

func (rs *runs) get(name string) *run {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return rs.byName[name]
}

// put keeps r unless another request was faster; it returns the one kept.
func (rs *runs) put(name string, r *run) *run {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if kept, ok := rs.byName[name]; ok {
		return kept
	}
	rs.byName[name] = r
	return r
}

// run returns a run that was opened, now or by an earlier server.
func (s *Server) run(ctx context.Context, name string) (*run, error) {
	if r := s.runs.get(name); r != nil {
		return r, nil
	}
	if err := checkName("run", name); err != nil {
		return nil, err
	}
	record, err := s.store.Run(ctx, name)
	if err != nil {
		return nil, err
	}
	spec, err := parseRunSpec(record.Spec)
	if err != nil {
		return nil, err
	}
	d, err := s.dataset(record.Dataset)
	if err != nil {
		return nil, err
	}
	r := &run{spec: spec, dataset: d, turn: make(chan struct{}, 1), closed: record.Closed}
	r.unlock()
	return s.runs.put(name, r), nil
}

// EndRun keeps rounds of a run from beginning and ends the one that is open, even if somebody
// waits for it. A round that is being charged is finished. The function that it returns is told
// whether the run was closed, and lets others go on. A run that was not opened has no rounds.
func (s *Server) EndRun(ctx context.Context, name string) (closed func(bool), err error) {
	r, err := s.run(ctx, name)
	if errors.Is(err, coordinator.ErrNoRun) {
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
