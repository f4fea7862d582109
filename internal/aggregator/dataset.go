package aggregator

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/conclave-dp/conclave/coordinator"
	"github.com/conclave-dp/conclave/internal/aggregator/metrics"
	"github.com/conclave-dp/conclave/internal/aggregator/peer"
	"github.com/conclave-dp/conclave/internal/privacy"
)

// dataset is what the server knows of a dataset while it runs: the nodes that
// are connected and the rounds that are open. Everything that must outlive
// the server is in etcd.
type dataset struct {
	record coordinator.Dataset
	*peer.Roster
	names peer.Names

	mu         sync.Mutex
	executions map[roundKey]*execution

	// admission is held while the budget is read and while a reservation
	// comes or goes, so that what is spent and what is reserved fit together.
	admission sync.Mutex
	reserved  map[*execution][]privacy.Event

	open  atomic.Int64 // rounds being answered
	spent struct {
		charges atomic.Int64 // since the start, tried ones too
		metrics.Spent
	}
}

func newDataset(record coordinator.Dataset) *dataset {
	return &dataset{
		record:     record,
		Roster:     peer.NewRoster(),
		executions: map[roundKey]*execution{},
		reserved:   map[*execution][]privacy.Event{},
	}
}

// join makes n the live stream of its node and returns the one it replaces.
func (d *dataset) join(n *peer.Node) (replaced *peer.Node) {
	replaced = d.Join(n)
	d.wakeAll()
	return replaced
}

// leave takes n out, unless a newer stream of the same node took its place.
func (d *dataset) leave(n *peer.Node) (gone bool) {
	gone = d.Leave(n)
	d.wakeAll()
	return gone
}

func (d *dataset) execution(key roundKey) *execution {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.executions[key]
}

func (d *dataset) wakeAll() {
	d.mu.Lock()
	open := make([]*execution, 0, len(d.executions))
	for _, e := range d.executions {
		open = append(open, e)
	}
	d.mu.Unlock()
	for _, e := range open {
		e.wake()
	}
}

// register opens an execution: nodes are looked at, and may answer, from now
// on.
func (d *dataset) register(e *execution) {
	d.mu.Lock()
	d.executions[e.key] = e
	d.mu.Unlock()
}

// unregister closes an execution and gives back what it reserved.
func (d *dataset) unregister(e *execution) {
	d.mu.Lock()
	if d.executions[e.key] == e {
		delete(d.executions, e.key)
	}
	d.mu.Unlock()
	d.admission.Lock()
	delete(d.reserved, e)
	d.admission.Unlock()
}

// reserve checks that the largest release of e fits the store, and its worst case the
// budgets of its run and of the dataset, other open rounds included, and sets that aside.
// The error matches privacy.ErrOverBudget when it does not fit the budgets.
func (d *dataset) reserve(ctx context.Context, store *coordinator.Store, lead *coordinator.Leadership, e *execution) error {
	d.admission.Lock()
	defer d.admission.Unlock()
	seen, err := store.Snapshot(ctx, lead, e.key.run)
	if err != nil {
		return fmt.Errorf("read what run %q has spent: %w", e.key.run, err)
	}
	if err := seen.CheckRoom(e.question.largest()); err != nil {
		return fmt.Errorf("round %d: %w", e.key.number, err)
	}
	ofRun, ofDataset := seen.Spending()
	_, worst, err := ofRun.Use(e.worst())
	if err != nil {
		return overBudget(err, "round %d does not fit the budget of run %q; close the run", e.key.number, e.key.run)
	}
	ofDataset.Spent = slices.Clone(ofDataset.Spent)
	for _, r := range d.reserved {
		ofDataset.Spent = append(ofDataset.Spent, r...)
	}
	if _, err := ofDataset.Admit(worst); err != nil {
		return overBudget(err, "round %d of run %q does not fit the budget of dataset %q", e.key.number, e.key.run, d.record.Name)
	}
	d.reserved[e] = worst
	return nil
}
