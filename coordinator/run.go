package coordinator

import (
	"context"
	"fmt"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/conclave-dp/conclave/internal/ledger"
	"github.com/conclave-dp/conclave/internal/masking"
	"github.com/conclave-dp/conclave/internal/privacy"
)

// Run is one training job. The names of runs are unique over all datasets.
type Run struct {
	Name    string `json:"name"`
	Dataset string `json:"dataset"`
	// Spec is the serialized spec, compared byte by byte.
	Spec   []byte         `json:"spec"`
	Budget privacy.Budget `json:"budget"`
	// Plan lists everything that the run may ask, and the cost of each question.
	Plan privacy.Plan `json:"plan"`
	// By is the student that opened it first.
	By string `json:"by,omitempty"`
	// Student is the student that wanted the run: it submitted the run to the queue, or opened it without the queue.
	Student string `json:"student,omitempty"`
	// Masked is the group that masks the run's sums, for its ledger entry. It is not stored, because the spec has it.
	Masked *masking.Group `json:"-"`
	// Facts are the other facts in the run's ledger entry, except the student. They are not stored either.
	Facts ledger.Facts `json:"-"`
	// Claim is the claim of the worker that opens a queued run. It is not stored.
	Claim string `json:"-"`

	RunState
}

// RunState has the fields of a run that the store fills in.
type RunState struct {
	// PlanEpsilon is the price of the whole plan at the run's delta, if the budget's filter is pld.
	PlanEpsilon float64 `json:"plan_epsilon,omitempty"`
	// Opened is the time; see [ledger.FormatTime].
	Opened string `json:"opened,omitempty"`

	// Rostered means that the ledger has the run's roster.
	Rostered bool `json:"rostered,omitempty"`
	Closed   bool `json:"closed,omitempty"`
	// Manifest is the SHA-256, in hex, of the list of files in the closing entry; empty if it has none.
	Manifest string `json:"manifest,omitempty"`
	// Removed means that only this record of the run is left; see [Store.Remove].
	Removed bool `json:"removed,omitempty"`
	// Entries is the number of entries of a removed run's plan.
	Entries int `json:"entries,omitempty"`
	// Head is the hash of the closing entry.
	Head     string `json:"head,omitempty"`
	Releases uint64 `json:"releases,omitempty"`
	// Abandoned counts the questions that were charged without a release.
	Abandoned uint64 `json:"abandoned,omitempty"`
	// Forgotten is the first round whose stored release was not dropped.
	Forgotten uint64 `json:"forgotten,omitempty"`
	// Used counts the uses of each entry of the plan; nil before the first release.
	Used []int64 `json:"used,omitempty"`
	// Spent holds the run's events, merged; EpsilonSpent is their price at the
	// run's delta.
	Spent        []privacy.Event `json:"spent,omitempty"`
	EpsilonSpent float64         `json:"epsilon_spent,omitempty"`
}

// Run returns a run; the error matches ErrNoRun if there is none.
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

// PlanEntries is the number of plan entries, also after the run was removed. It bounds how many mechanisms the run
// adds to the totals of its dataset.
func (r Run) PlanEntries() int { return max(len(r.Plan), r.Entries) }

// spending returns what the run and its dataset may spend and have spent. Other runs' uncharged questions count as
// spent of the dataset.
func (l *loaded) spending() (ofRun, ofDataset privacy.Spending) {
	r := l.run
	return privacy.Spending{Budget: r.Budget, Plan: r.Plan, PlanEpsilon: r.PlanEpsilon, Used: r.Used, Spent: r.Spent},
		privacy.DatasetSpending(l.dataset.Budget, l.dataset.due(r.Name), r.Plan)
}

// loaded is a run, its dataset and perhaps more, read at one revision.
type loaded struct {
	run       Run
	dataset   datasetRecord
	datasetKV *mvccpb.KeyValue
	more      []*mvccpb.KeyValue
}

// load reads a run with its dataset, and other keys at the same revision. The run's record changes only together with
// the dataset's, so comparing the latter guards both.
func (s *Store) load(ctx context.Context, op, run string, more ...string) (*loaded, error) {
	dataset, err := s.datasetOf(ctx, op, run)
	if err != nil {
		return nil, err
	}
	check := s.cacheOf(dataset).reading()
	kvs, _, err := s.read(ctx, op, append([]string{s.runKey(run), s.datasetKey(dataset)}, more...)...)
	if err != nil {
		return nil, err
	}
	if kvs[0] == nil || kvs[1] == nil {
		return nil, fmt.Errorf("%s: %w: run %q or its dataset %q was removed; restore etcd from a backup",
			op, ErrCorrupt, run, dataset)
	}
	l := &loaded{datasetKV: kvs[1], more: kvs[2:]}
	if l.run, err = decode[Run](kvs[0]); err != nil {
		return nil, err
	}
	if l.dataset, err = decode[datasetRecord](kvs[1]); err != nil {
		return nil, err
	}
	if err := check(l.dataset); err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	if l.run.Dataset != dataset {
		return nil, fmt.Errorf("%s: %w: run %q belonged to dataset %q and now belongs to %q; restore etcd from a "+
			"backup",
			op, ErrCorrupt, run, dataset, l.run.Dataset)
	}
	return l, nil
}

// datasetOf returns the dataset of a run, which never changes.
func (s *Store) datasetOf(ctx context.Context, op, run string) (string, error) {
	known, ok := s.datasets.Load(run)
	if !ok {
		r, err := s.Run(ctx, run)
		if err != nil {
			return "", fmt.Errorf("%s: %w", op, err)
		}
		known, _ = s.datasets.LoadOrStore(run, r.Dataset)
	}
	return known.(string), nil
}

// CloseRun ends a run with a ledger entry. The entry has the SHA-256 of the run's list of files, if any, and the
// student that gives them out, if it differs from the one that wanted the run. CloseRun returns the hashes of the
// entry and of the list. Closing again returns those of the first time and writes nothing.
func (s *Store) CloseRun(ctx context.Context, lead *Leadership, name, manifest, by string) (head, sealed string,
	err error) {
	const op = "close run"
	err = update(func() (bool, error) {
		l, err := s.load(ctx, op, name)
		if err != nil {
			return false, err
		}
		if l.run.Closed {
			head, sealed = l.run.Head, l.run.Manifest
			return true, nil
		}
		puts, err := s.closing(lead, l, manifest, by)
		if err != nil {
			return false, fmt.Errorf("%s %q: %w", op, name, err)
		}
		head, sealed = l.run.Head, l.run.Manifest
		revision, err := s.commitRun(ctx, op, lead, l, nil, puts...)
		s.wrote(l.run.Dataset)
		return revision > 0, err
	})
	if err != nil {
		return "", "", err
	}
	return head, sealed, nil
}

// commitRun writes l's run together with puts if everything that l was read from is unchanged and the conditions
// hold. It returns the revision, or 0 if nothing was written or the outcome is unknown.
func (s *Store) commitRun(ctx context.Context, op string, lead *Leadership, l *loaded, conditions []clientv3.Cmp,
	puts ...clientv3.Op) (revision int64, err error) {
	value, err := encode(l.run)
	if err != nil {
		return 0, err
	}
	return s.commitAt(ctx, op, lead,
		append(conditions, unchanged(l.datasetKV)),
		append(puts, clientv3.OpPut(s.runKey(l.run.Name), value))...)
}
