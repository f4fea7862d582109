package coordinator

import (
	"context"
	"fmt"
	"slices"

	"github.com/conclave-dp/conclave/internal/privacy"
)

// AllRuns returns all runs ever opened, on any dataset, by name, including closed and removed ones.
func (s *Store) AllRuns(ctx context.Context) ([]Run, error) {
	kvs, err := s.list(ctx, "list runs", s.config.Prefix+"runs/")
	if err != nil {
		return nil, err
	}
	var runs []Run
	for _, kv := range kvs {
		r, err := decode[Run](kv)
		if err != nil {
			return nil, err
		}
		runs = append(runs, r)
	}
	return runs, nil
}

// EachRun calls taken with each named run that was opened and not removed, in this order. It reads them in pages.
func (s *Store) EachRun(ctx context.Context, names []string, take func(Run)) error {
	const page = 100 // etcd takes 128 in a transaction
	for some := range slices.Chunk(names, page) {
		keys := make([]string, len(some))
		for i, name := range some {
			keys[i] = s.runKey(name)
		}
		kvs, _, err := s.read(ctx, "read runs", keys...)
		if err != nil {
			return err
		}
		for _, kv := range kvs {
			if kv == nil {
				continue
			}
			r, err := decode[Run](kv)
			if err != nil {
				return err
			}
			if !r.Removed {
				take(r)
			}
		}
	}
	return nil
}

// Room has a dataset's spending, and what open runs may still spend.
type Room struct {
	Budget privacy.Budget
	// Spent are the events of all its releases.
	Spent []privacy.Event
	// Open are the runs that were opened and not closed, by name.
	Open []Run
	// opened names all runs ever opened on the dataset.
	opened map[string]bool
}

// Room reads a dataset's spending and its open runs. opened names the runs ever opened on it that may still be open;
// no others are read. Use it for estimates and for the order of the queue: OpenRun decides which run may be opened,
// and Charge what is charged.
func (s *Store) Room(ctx context.Context, dataset string, opened map[string]bool) (Room, error) {
	const op = "look up the remaining budget"
	if err := checkName("dataset", dataset); err != nil {
		return Room{}, err
	}
	// Read before the dataset: spending in between is then counted in the total and also still reserved, so that the
	// reservation is never too small.
	room := Room{opened: map[string]bool{}}
	var mayBeOpen []string
	for name, open := range opened {
		if open {
			mayBeOpen = append(mayBeOpen, name)
		} else {
			room.opened[name] = true
		}
	}
	slices.Sort(mayBeOpen)
	err := s.EachRun(ctx, mayBeOpen, func(r Run) {
		if room.opened[r.Name] = true; !r.Closed {
			room.Open = append(room.Open, r)
		}
	})
	if err != nil {
		return Room{}, err
	}
	kvs, _, err := s.read(ctx, op, s.datasetKey(dataset))
	if err != nil {
		return Room{}, err
	}
	if kvs[0] == nil {
		return Room{}, fmt.Errorf("%s: %w: %q", op, ErrNoDataset, dataset)
	}
	record, err := decode[datasetRecord](kvs[0])
	if err != nil {
		return Room{}, err
	}
	room.Budget, room.Spent = record.Budget, record.Spent
	return room, nil
}

// Spending is the spending of a submitted run that was not opened yet.
func (q Submission) Spending() privacy.Spending {
	return privacy.Spending{Budget: q.Budget, Plan: q.Plan}
}

// Unopened drops the runs that were opened when the room was read: the room counts them as open or spent. Read the
// queue before the room, so that each run is in at least one of the two.
func (r Room) Unopened(queued []Submission) (waiting []privacy.Spending) {
	for _, q := range queued {
		if !r.opened[q.Name] {
			waiting = append(waiting, q.Spending())
		}
	}
	return waiting
}

// Reserved is the part of the budget that the dataset's releases, its open runs and the given unopened runs take
// together.
func (r Room) Reserved(waiting ...privacy.Spending) (privacy.Reservation, error) {
	spending := slices.Clone(waiting)
	for _, open := range r.Open {
		spending = append(spending,
			privacy.Spending{Budget: open.Budget, Plan: open.Plan, Used: open.Used, Spent: open.Spent})
	}
	return privacy.Reserve(r.Spent, spending)
}

// Holds reports whether the run could be opened now, by the rule of OpenRun: its spending is added to what is spent and
// to what other runs may still spend.
func (r Room) Holds(q privacy.Spending) error {
	record := datasetRecord{Dataset: Dataset{Budget: r.Budget}, Spent: r.Spent}
	if len(r.opened) > 0 {
		record.Head.Seq = 2
	}
	return record.makesRoom(Run{Budget: q.Budget, Plan: q.Plan})
}
