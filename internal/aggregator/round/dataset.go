package round

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/conclave-dp/conclave/coordinator"
	"github.com/conclave-dp/conclave/internal/aggregator/fault"
	"github.com/conclave-dp/conclave/internal/aggregator/metrics"
	"github.com/conclave-dp/conclave/internal/aggregator/payload"
	"github.com/conclave-dp/conclave/internal/aggregator/peer"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/study"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// Dataset is the server's state of a dataset in memory: connected nodes and open rounds. Everything that must outlive
// the server is in etcd.
type Dataset struct {
	Record coordinator.Dataset
	// Students may open and submit runs on the dataset; Workers may take them from the queue.
	Students, Workers Allowed
	// Study is the study that all runs must belong to; nil allows any study, and none.
	Study *study.Block
	Names peer.Names // of all nodes ever admitted
	*peer.Roster

	mu         sync.Mutex
	executions map[payload.Key]*Execution

	// admission is held while the budget is read and while a reservation changes, so that spending and reservations
	// are consistent.
	admission sync.Mutex
	reserved  map[*Execution][]privacy.Event

	feed    feed
	signing signing
	open    atomic.Int64 // rounds being answered
	charges atomic.Int64 // since the start, failed ones included
	spent   metrics.Spent
}

// Allowed lists certificate names with a permission. An empty list allows all.
type Allowed []string

// Has reports whether a name is allowed.
func (a Allowed) Has(name string) bool { return len(a) == 0 || slices.Contains(a, name) }

// NewDataset returns a dataset without nodes and rounds, whose ledger has this many entries.
func NewDataset(record coordinator.Dataset, entries uint64) *Dataset {
	return &Dataset{
		feed:       feed{told: entries, followers: map[*peer.Node]bool{}},
		Record:     record,
		Roster:     peer.NewRoster(),
		executions: map[payload.Key]*Execution{},
		reserved:   map[*Execution][]privacy.Event{},
	}
}

// CheckStudy refuses a run that belongs to a different study from the dataset's, or whose study has ended. It is
// called when a run is submitted, taken and opened, and before each round goes to nodes. Errors match
// [study.ErrOther] or [study.ErrEnded].
func (d *Dataset) CheckStudy(run string, of *study.Block, now time.Time) error {
	if err := d.Study.Admits(of, now); err != nil {
		return fmt.Errorf("run %q: %w", run, err)
	}
	return nil
}

// OpenRounds is the number of rounds being answered.
func (d *Dataset) OpenRounds() int { return int(d.open.Load()) }

// EpsilonSpent is the epsilon spent on the dataset. It calls account if something was charged since the last call.
func (d *Dataset) EpsilonSpent(account func() (float64, error)) (float64, error) {
	return d.spent.Epsilon(d.charges.Load(), account)
}

// Join makes n the live stream of its node and returns the stream that it replaces.
func (d *Dataset) Join(n *peer.Node) (replaced *peer.Node) {
	replaced = d.Roster.Join(n)
	d.wake()
	return replaced
}

// Leave removes n unless a newer stream of the same node replaced it.
func (d *Dataset) Leave(n *peer.Node) (gone bool) {
	d.feed.unfollow(n)
	gone = d.Roster.Leave(n)
	d.wake()
	return gone
}

// Ready records that a node's site has decided about a run, and reports whether the node waited for that.
func (d *Dataset) Ready(n *peer.Node, run string) bool {
	if !n.Ready(run) {
		return false
	}
	d.wake()
	return true
}

// Take takes a node's answer to a round or a permit. The error says why it does not count; fault.Late and fault.Stale
// without an error mark answers that are normal but do not count.
func (d *Dataset) Take(n *peer.Node, key payload.Key, answer *conclavev1.WorkRequest) (fault.Kind, error) {
	e := d.execution(key)
	kind := n.Answer(peer.Round{Run: key.Run, Number: key.Number, Attempt: answer.GetAttempt()})
	switch {
	case kind == fault.Duplicate:
		return "", fault.Rejectf(kind, "node %v answered round %d twice; the first answer counts", n.ID, key.Number)
	case kind == fault.Foreign && e != nil:
		return "", fault.Rejectf(fault.Unasked, "node %v answered round %d without being asked", n.ID, key.Number)
	case kind == fault.Foreign:
		return "", fault.Rejectf(kind, "node %v answered round %d of a run without being asked", n.ID,
			key.Number)
	}
	if ours, err := d.decide(n, key, answer); ours {
		return "", err
	}
	switch {
	case kind == fault.Late || e == nil:
		return fault.Late, nil // the round ended before the withdrawal arrived
	case e.spec.Masked != nil:
		return e.takeMasked(n, answer)
	case answer.GetAttempt() != e.attempt:
		return fault.Stale, nil // it was given up and asked again, perhaps as another question
	}
	return "", e.take(n, answer)
}

func (d *Dataset) execution(key payload.Key) *Execution {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.executions[key]
}

// Unanswered lists nodes that have not answered an open round before the current minute, with the run and since when
// they were asked.
func (d *Dataset) Unanswered(now time.Time) map[peer.ID]peer.Unanswered {
	d.mu.Lock()
	open := slices.Collect(maps.Values(d.executions))
	d.mu.Unlock()
	all := map[peer.ID]peer.Unanswered{}
	for _, e := range open {
		e.mu.Lock()
		for id, p := range e.participants.byID {
			if p.current.seemsToOwe(now) && (all[id].Since.IsZero() || p.current.asked.Before(all[id].Since)) {
				all[id] = peer.Unanswered{Run: e.key.Run, Since: p.current.asked}
			}
		}
		e.mu.Unlock()
	}
	return all
}

// wake makes all open rounds check the nodes.
func (d *Dataset) wake() {
	d.mu.Lock()
	open := make([]*Execution, 0, len(d.executions))
	for _, e := range d.executions {
		open = append(open, e)
	}
	d.mu.Unlock()
	for _, e := range open {
		e.wake()
	}
}

// register opens an execution: from now on it checks nodes, and nodes may answer.
func (d *Dataset) register(e *Execution) {
	d.mu.Lock()
	d.executions[e.key] = e
	d.mu.Unlock()
}

// unregister closes an execution and releases its reservation.
func (d *Dataset) unregister(e *Execution) {
	d.mu.Lock()
	if d.executions[e.key] == e {
		delete(d.executions, e.key)
	}
	d.mu.Unlock()
	d.admission.Lock()
	delete(d.reserved, e)
	d.admission.Unlock()
}

// reserve checks that e's largest release fits the store, and its worst case the budgets of run and dataset beside
// all open rounds. It reserves that cost. The error matches privacy.ErrOverBudget if a budget is too small.
func (rs *Rounds) reserve(ctx context.Context, e *Execution) error {
	d := e.dataset
	d.admission.Lock()
	defer d.admission.Unlock()
	seen, err := rs.Store.Snapshot(ctx, rs.Lead, e.key.Run)
	if err != nil {
		return fmt.Errorf("read the spending of run %q: %w", e.key.Run, err)
	}
	if err := seen.CheckRoom(e.question.Largest()); err != nil {
		return fmt.Errorf("round %d: %w", e.key.Number, err)
	}
	ofRun, ofDataset, err := seen.Spending(e.key.Number, e.asks(privacy.Use{}).Digest)
	if err != nil {
		return fmt.Errorf("spending of run %q: %w", e.key.Run, err)
	}
	_, worst, err := ofRun.Use(e.worst())
	if err != nil {
		return fault.OverBudget(err, "round %d exceeds the budget of run %q; close the run", e.key.Number,
			e.key.Run)
	}
	ofDataset.Spent = slices.Clone(ofDataset.Spent)
	for _, r := range d.reserved {
		ofDataset.Spent = append(ofDataset.Spent, r...)
	}
	if _, err := ofDataset.Admit(worst); err != nil {
		return fault.OverBudget(err, "round %d of run %q exceeds the budget of dataset %q",
			e.key.Number, e.key.Run, d.Record.Name)
	}
	d.reserved[e] = worst
	return nil
}
