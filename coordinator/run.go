package coordinator

import (
	"bytes"
	"context"
	"fmt"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/conclave-dp/conclave/privacy"
)

// Run is one training job. The names of runs are unique over all datasets.
type Run struct {
	Name    string `json:"name"`
	Dataset string `json:"dataset"`
	// Spec is the serialized spec, compared byte by byte.
	Spec   []byte         `json:"spec"`
	Budget privacy.Budget `json:"budget"`

	// What follows is filled in by the store.

	Closed bool `json:"closed,omitempty"`
	// Head is the hash of the closing entry.
	Head     string `json:"head,omitempty"`
	Releases uint64 `json:"releases,omitempty"`
	// Spent holds the run's events, merged; EpsilonSpent is their claim at the
	// run's delta.
	Spent        []privacy.Event `json:"spent,omitempty"`
	EpsilonSpent float64         `json:"epsilon_spent,omitempty"`
}

// OpenRun registers a run with an entry in the ledger, and says whether it was
// there before with the same dataset, budget and spec. The error matches
// ErrRunExists when one of them differs, and ErrNoDataset.
func (s *Store) OpenRun(ctx context.Context, lead *Leadership, r Run) (existing bool, err error) {
	const op = "open run"
	if err := checkName("run", r.Name); err != nil {
		return false, err
	}
	if err := checkName("dataset", r.Dataset); err != nil {
		return false, err
	}
	opened := Run{Name: r.Name, Dataset: r.Dataset, Spec: r.Spec, Budget: r.Budget}
	err = update(func() (bool, error) {
		kvs, _, err := s.read(ctx, op, s.runKey(r.Name), s.datasetKey(r.Dataset))
		if err != nil {
			return false, err
		}
		if existing = kvs[0] != nil; existing {
			stored, err := decode[Run](kvs[0])
			if err != nil {
				return false, err
			}
			if field := opened.differs(stored); field != "" {
				return false, fmt.Errorf("%w: run %q has another %s; give the new run another name, or put its old spec back", ErrRunExists, r.Name, field)
			}
			return true, nil
		}
		if kvs[1] == nil {
			return false, fmt.Errorf("%s %q: %w: %q; the aggregator's configuration lists the datasets", op, r.Name, ErrNoDataset, r.Dataset)
		}
		record, err := decode[datasetRecord](kvs[1])
		if err != nil {
			return false, err
		}
		if err := record.Budget.Room(record.Spent, r.Budget); err != nil {
			return false, fmt.Errorf("%s %q: its budget does not fit what is left of that of dataset %q: %w", op, r.Name, r.Dataset, err)
		}
		entry := s.newEntry(lead, privacy.EntryRun, r.Dataset)
		entry.Run, entry.Budget = r.Name, &r.Budget
		puts, err := s.appendEntry(&record, entry)
		if err != nil {
			return false, fmt.Errorf("%s %q: %w", op, r.Name, err)
		}
		value, err := encode(opened)
		if err != nil {
			return false, err
		}
		return s.commit(ctx, op, lead,
			[]clientv3.Cmp{absent(s.runKey(r.Name)), unchanged(kvs[1])},
			append(puts, clientv3.OpPut(s.runKey(r.Name), value))...)
	})
	return existing, err
}

func (r Run) differs(stored Run) string {
	switch {
	case r.Dataset != stored.Dataset:
		return "dataset"
	case r.Budget != stored.Budget:
		return "budget"
	case !bytes.Equal(r.Spec, stored.Spec):
		return "spec"
	}
	return ""
}

// Run returns a run; the error matches ErrNoRun when there is none.
func (s *Store) Run(ctx context.Context, name string) (Run, error) {
	if err := checkName("run", name); err != nil {
		return Run{}, err
	}
	kvs, _, err := s.read(ctx, "read run", s.runKey(name))
	if err != nil {
		return Run{}, err
	}
	if kvs[0] == nil {
		return Run{}, fmt.Errorf("%w: %q", ErrNoRun, name)
	}
	return decode[Run](kvs[0])
}

// Spent returns what the run has released, merged, and what all runs on its
// dataset have, as of one moment.
func (s *Store) Spent(ctx context.Context, run string) (ofRun, ofDataset []privacy.Event, err error) {
	l, err := s.load(ctx, "read what was spent", run)
	if err != nil {
		return nil, nil, err
	}
	return l.run.Spent, l.dataset.Spent, nil
}

// loaded is a run, its dataset and perhaps more, read at one revision.
type loaded struct {
	run       Run
	dataset   datasetRecord
	datasetKV *mvccpb.KeyValue
	more      []*mvccpb.KeyValue
}

// load reads a run with its dataset, and other keys at the same revision. The
// run's record changes only together with the dataset's, so that comparing the
// latter guards both.
func (s *Store) load(ctx context.Context, op, run string, more ...string) (*loaded, error) {
	// A run never changes its dataset.
	r, err := s.Run(ctx, run)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	kvs, _, err := s.read(ctx, op, append([]string{s.runKey(run), s.datasetKey(r.Dataset)}, more...)...)
	if err != nil {
		return nil, err
	}
	if kvs[0] == nil || kvs[1] == nil {
		return nil, fmt.Errorf("%s: %w: run %q or its dataset %q was removed; restore etcd from a backup", op, ErrCorrupt, run, r.Dataset)
	}
	l := &loaded{datasetKV: kvs[1], more: kvs[2:]}
	if l.run, err = decode[Run](kvs[0]); err != nil {
		return nil, err
	}
	if l.dataset, err = decode[datasetRecord](kvs[1]); err != nil {
		return nil, err
	}
	return l, nil
}

// CloseRun ends a run with an entry in the ledger and returns that entry's
// hash. Closing again returns the same hash and writes nothing.
func (s *Store) CloseRun(ctx context.Context, lead *Leadership, name string) (head string, err error) {
	const op = "close run"
	err = update(func() (bool, error) {
		l, err := s.load(ctx, op, name)
		if err != nil {
			return false, err
		}
		if l.run.Closed {
			head = l.run.Head
			return true, nil
		}
		entry := s.newEntry(lead, privacy.EntryClose, l.run.Dataset)
		entry.Run, entry.EpsilonSpent = name, l.run.EpsilonSpent
		puts, err := s.appendEntry(&l.dataset, entry)
		if err != nil {
			return false, fmt.Errorf("%s %q: %w", op, name, err)
		}
		head = l.dataset.Head.Hash
		l.run.Closed, l.run.Head = true, head
		return s.commitRun(ctx, op, lead, l, nil, puts...)
	})
	if err != nil {
		return "", err
	}
	return head, nil
}

// commitRun writes l's run as it is now together with puts, if nothing that l
// was read from has changed since and the conditions hold.
func (s *Store) commitRun(ctx context.Context, op string, lead *Leadership, l *loaded, conditions []clientv3.Cmp, puts ...clientv3.Op) (bool, error) {
	value, err := encode(l.run)
	if err != nil {
		return false, err
	}
	return s.commit(ctx, op, lead,
		append(conditions, unchanged(l.datasetKV)),
		append(puts, clientv3.OpPut(s.runKey(l.run.Name), value))...)
}
