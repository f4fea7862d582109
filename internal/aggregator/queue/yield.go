package queue

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/conclave-dp/conclave/internal/aggregator/peer"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// A run may rightly wait for days until sites approve it, and it may wait for teachers that will never be
// there. Nobody can tell which. So it keeps its worker only while no other run could have that.

// place orders a run among those that wait: by its submission, or behind those that were there when it last
// gave its worker away.
func (e entry) place() int64 { return max(e.record.Order, e.behind) }

// line lists the runs of a dataset in the order in which they have their turn.
func (q *Queue) line(dataset string) []entry {
	all := q.list(dataset)
	slices.SortStableFunc(all, func(a, b entry) int { return cmp.Compare(a.place(), b.place()) })
	return all
}

// halts notes since when a run waits for a quorum, in the words of its worker. Callers hold q.mu.
func (e *entry) halts(p *conclavev1.RunProgress) {
	switch {
	case !p.GetHalted():
		e.halted, e.behind = time.Time{}, 0
	case e.halted.IsZero():
		e.halted = time.Now()
	}
}

// yield gives back a run of a dataset whose worker has waited with it for a quorum for longer than the
// patience, where another run could begin. It goes behind all others, and goes on from there: nothing of it
// was asked of nodes yet that is not stored.
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
	why := fmt.Sprintf("worker %q waited with it for a quorum for %v, and other runs wait for a worker", held.Worker,
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

// goBehind sets a run's place among those that wait, and returns the one before.
func (q *Queue) goBehind(name string, place int64) (before int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.byName[name]
	before, e.behind = e.behind, place
	return before
}
