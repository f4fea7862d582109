package coordinator

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/conclave-dp/conclave/internal/ledger"
	"github.com/conclave-dp/conclave/internal/privacy"
)

// OpenRun registers a run with an entry in the ledger. It returns whether the run existed before with the same
// dataset, budget and spec. The error matches ErrRunExists if one of them differs, ErrNoDataset, [privacy.ErrPlan] if
// the plan does not suit its filter or the dataset, and [privacy.ErrOverBudget] if the run could not be finished.
//
// A queued run is opened by the worker that claimed it, with its claim and the submitted budget; otherwise the error
// matches ErrQueue or ErrRunExists.
func (s *Store) OpenRun(ctx context.Context, lead *Leadership, r Run) (existing bool, err error) {
	const op = "open run"
	if err := checkName("run", r.Name); err != nil {
		return false, err
	}
	if err := checkName("dataset", r.Dataset); err != nil {
		return false, err
	}
	opened := Run{
		Name: r.Name, Dataset: r.Dataset, Spec: r.Spec, Budget: r.Budget, Plan: r.Plan, By: r.By, Student: r.Student,
	}
	if len(r.Facts.Earlier) > ledger.MaxEarlier {
		return false, fmt.Errorf("%s %q: it continues %d runs; the maximum is %d", op, r.Name,
			len(r.Facts.Earlier), ledger.MaxEarlier)
	}
	// Computed once, because it takes some tenths of a second.
	planEpsilon := sync.OnceValues(opened.checkPlan)
	err = update(func() (bool, error) {
		check := s.cacheOf(r.Dataset).reading()
		kvs, _, err := s.read(ctx, op, s.runKey(r.Name), s.datasetKey(r.Dataset), s.submissionKey(r.Name))
		if err != nil {
			return false, err
		}
		asQueued, err := r.asQueued(s.submissionKey(r.Name), kvs[2], kvs[0] != nil)
		if err != nil {
			return false, err
		}
		if existing = kvs[0] != nil; existing {
			stored, err := decode[Run](kvs[0])
			if err != nil {
				return false, err
			}
			if stored.Removed {
				return false, fmt.Errorf("%w, and was removed: %q; choose another name for the new "+
					"run", ErrRunExists, r.Name)
			}
			if field := opened.differs(stored); field != "" {
				return false, fmt.Errorf("%w with another %s: %q; choose another name for the new run, or restore "+
					"its old spec", ErrRunExists, field, r.Name)
			}
			return true, nil
		}
		if kvs[1] == nil {
			return false, fmt.Errorf("%s %q: %w: %q; the aggregator's configuration lists the datasets",
				op, r.Name, ErrNoDataset, r.Dataset)
		}
		record, err := decode[datasetRecord](kvs[1])
		if err != nil {
			return false, err
		}
		if err := check(record); err != nil {
			return false, fmt.Errorf("%s %q: %w", op, r.Name, err)
		}
		if err := s.goesOn(ctx, op, r); err != nil {
			return false, err
		}
		if opened.PlanEpsilon, err = planEpsilon(); err != nil {
			return false, fmt.Errorf("%s %q: %w", op, r.Name, err)
		}
		if err := record.makesRoom(opened); err != nil {
			return false, fmt.Errorf("%s %q on dataset %q: %w", op, r.Name, r.Dataset, err)
		}
		entry := s.newEntry(lead, ledger.EntryRun, r.Dataset)
		entry.Run, entry.Budget, entry.Plan, entry.Masked = r.Name, &r.Budget, r.Plan, r.Masked
		facts := r.Facts
		facts.Student = cmp.Or(r.Student, r.By)
		entry.Facts = &facts
		puts, err := s.appendEntries(&record, entry)
		if err != nil {
			return false, fmt.Errorf("%s %q: %w", op, r.Name, err)
		}
		opened.Opened = ledger.FormatTime(s.now())
		value, err := encode(opened)
		if err != nil {
			return false, err
		}
		defer s.wrote(r.Dataset)
		return s.commit(ctx, op, lead,
			[]clientv3.Cmp{absent(s.runKey(r.Name)), unchanged(kvs[1]), asQueued},
			append(puts, clientv3.OpPut(s.runKey(r.Name), value))...)
	})
	return existing, err
}

// goesOn checks the runs that a run continues: each ended on the same dataset and belongs to the same student. These
// facts never change.
func (s *Store) goesOn(ctx context.Context, op string, r Run) error {
	for _, name := range r.Facts.Earlier {
		before, err := s.Run(ctx, name)
		if err != nil && !errors.Is(err, ErrNoRun) {
			return err
		}
		mine := cmp.Or(before.Student, before.By) == cmp.Or(r.Student, r.By)
		if err != nil || before.Dataset != r.Dataset || !before.Closed || !mine {
			return fmt.Errorf("%s %q: %w: it continues %q, which is not a closed run of the same student and dataset",
				op, r.Name, ErrNoRun, name)
		}
	}
	return nil
}

// asQueued checks a run against the queued run of the same name, if any. It returns the condition that the queued run
// stays unchanged.
func (r Run) asQueued(key string, kv *mvccpb.KeyValue, opened bool) (clientv3.Cmp, error) {
	if kv == nil && r.Claim != "" {
		return clientv3.Cmp{}, fmt.Errorf("%w: run %q has a claim but is not in the queue; open it without a claim",
			ErrQueue, r.Name)
	}
	if kv == nil {
		return absent(key), nil
	}
	q, err := decodeSubmission(kv)
	switch {
	case err != nil:
	case q.State.Final() && !opened:
		err = fmt.Errorf("%w: run %q was in the queue and has ended (%s); choose another name for the new run",
			ErrRunExists, r.Name, q.State)
	case q.State.Final(): // it is closed
	case q.State == Waiting || r.Claim != q.Claim:
		err = moved(q, "opened")
	case r.Dataset != q.Dataset || r.Budget != q.Budget:
		err = fmt.Errorf("%w: run %q was submitted with another budget", ErrRunExists, r.Name)
	}
	return unchanged(kv), err
}

func (r Run) differs(stored Run) string {
	switch {
	case r.Dataset != stored.Dataset:
		return "dataset"
	case r.Budget != stored.Budget:
		return "budget"
	case !bytes.Equal(r.Spec, stored.Spec):
		return "spec"
	case !slices.Equal(r.Plan, stored.Plan):
		return "plan"
	}
	return ""
}

// checkPlan returns the price of the run's plan if its filter is pld, otherwise 0.
func (r Run) checkPlan() (float64, error) {
	if r.Budget.Filter != privacy.FilterPLD {
		return 0, r.Plan.Validate()
	}
	price, err := r.Plan.Check(r.Budget)
	return price.Epsilon, err
}

// makesRoom checks that the run may be opened, and can be finished, in addition to what is spent.
func (d datasetRecord) makesRoom(r Run) error {
	// A run's entry is the first after the dataset's own. With filter pld there is one run, so only the difference
	// between none and some matters.
	runs := 0
	if d.Head.Seq > 1 {
		runs = 1
	}
	if _, err := privacy.CheckDatasetPlan(d.Budget, d.due(r.Name), runs, r.Budget.Filter, r.Plan); err != nil {
		return err
	}
	if r.Budget.Filter == privacy.FilterPLD {
		return nil
	}
	if err := d.Budget.Room(d.due(r.Name), r.Budget); err != nil {
		return fmt.Errorf("its budget exceeds what is left of the dataset's budget: %w", err)
	}
	return nil
}
