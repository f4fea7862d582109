package queue

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/conclave-dp/conclave/internal/aggregator/peer"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// A run may wait for days until sites approve it, or wait for teachers that never come. Nobody can tell which. So it
// keeps its worker only while no other run could use the worker.

// place orders waiting runs: by submission, or behind the runs that waited when it last gave up its worker.
func (e entry) place() int64 { return max(e.record.Order, e.behind) }

// line lists the runs of a dataset by turn.
func (q *Queue) line(dataset string) []entry {
	all := q.list(dataset)
	slices.SortStableFunc(all, func(a, b entry) int { return cmp.Compare(a.place(), b.place()) })
	return all
}

// halts records since when a run waits for a quorum, as its worker reports it. Callers hold q.mu.
func (e *entry) halts(p *conclavev1.RunProgress) {
	switch {
	case !p.GetHalted():
		e.halted, e.behind = time.Time{}, 0
	case e.halted.IsZero():
		e.halted = time.Now()
	}
}

// yield returns a run to the queue if its worker has waited for a quorum for longer than the patience and another run
// could begin. The run moves to the end of the line. It loses nothing: everything that nodes were asked is stored.
func (q *Queue) yield(dataset string) error {
	leading := q.Lifetime.Leading()
	all := q.list(dataset)
	i := slices.IndexFunc(all, func(e entry) bool {
		return e.claim != nil && !e.halted.IsZero() && time.Since(e.halted) > q.Patience &&
			q.Rounds.Halted(leading, e.record.Name)
	})
	if i < 0 {
		return nil
	}
	if err := q.lock(leading); err != nil {
		return err
	}
	defer q.turn.Unlock()
	held := all[i].record
	if !q.heldWith(held.Name, held.Claim) {
		return nil
	}
	if next, err := q.first(leading, dataset, nil, process{}, nil); err != nil || next == nil {
		return err
	}
	why := fmt.Sprintf("worker %q waited %v for its quorum, and other runs need a worker", held.Worker,
		q.Patience)
	// Before anybody can see that it waits again.
	line := q.line(dataset)
	before := q.goBehind(held.Name, line[len(line)-1].place()+1)
	record, err := q.Store.GiveBack(leading, q.Lead, held.Name, held.Claim, why)
	if err != nil {
		q.goBehind(held.Name, before)
	}
	return q.returned(peer.Caller{}, record, err, why)
}

// goBehind sets a run's place in line and returns the earlier one.
func (q *Queue) goBehind(name string, place int64) (before int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.byName[name]
	before, e.behind = e.behind, place
	return before
}
