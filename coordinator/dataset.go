package coordinator

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/conclave-dp/conclave/internal/ledger"
	"github.com/conclave-dp/conclave/internal/privacy"
)

// neighbouring is the relation every dataset is opened with.
const neighbouring = "add-or-remove-one-unit"

// Dataset holds what all runs on a dataset share, for its whole life.
type Dataset struct {
	Name   string         `json:"name"`
	Budget privacy.Budget `json:"budget"`
	// SchemaSHA256 is the hash of the schema file, in hex.
	SchemaSHA256 string `json:"schema_sha256"`
	// Unit is "record" or the column of the privacy unit.
	Unit string `json:"unit"`
}

// datasetRecord is the value of a dataset's key. Each ledger entry changes it,
// so that its mod revision stands for the whole ledger.
type datasetRecord struct {
	Dataset
	Head  ledger.Entry    `json:"head"`
	Spent []privacy.Event `json:"spent,omitempty"` // over all runs, merged
	// Asked are the uncharged questions that nodes were asked, by run.
	Asked map[string]asked `json:"asked,omitempty"`
}

// OpenDataset creates the dataset with the first entry of its ledger, or checks that it matches the existing one, with
// a [*MismatchError] otherwise. It verifies an existing dataset's ledger from the first entry to the head and against
// the totals that budget checks use; errors match ErrCorrupt.
func (s *Store) OpenDataset(ctx context.Context, lead *Leadership, d Dataset) error {
	const op = "open dataset"
	if err := checkName("dataset", d.Name); err != nil {
		return err
	}
	if d.SchemaSHA256 == "" {
		return fmt.Errorf("%s %q: the schema's hash is missing", op, d.Name)
	}
	key := s.datasetKey(d.Name)
	var damage error
	err := update(func() (bool, error) {
		damage = nil
		kvs, _, err := s.read(ctx, op, key)
		if err != nil {
			return false, err
		}
		if kvs[0] != nil {
			stored, err := decode[datasetRecord](kvs[0])
			if err != nil {
				return false, err
			}
			if err := d.matches(stored.Dataset); err != nil {
				return false, err
			}
			if damage = s.audit(ctx, stored); damage != nil && !errors.Is(damage, ErrCorrupt) {
				return false, damage
			}
			// The audit read at several moments, so its finding holds only if nobody wrote meanwhile. A deposed leader
			// learns of that here, before it takes the next leader's writes for damage.
			return s.commit(ctx, op, lead, []clientv3.Cmp{unchanged(kvs[0])})
		}
		record := datasetRecord{Dataset: d}
		entry := s.newEntry(lead, ledger.EntryOpen, d.Name)
		entry.Budget, entry.Unit, entry.Neighbouring = &d.Budget, d.Unit, neighbouring
		puts, err := s.appendEntries(&record, entry)
		if err != nil {
			return false, fmt.Errorf("%s %q: %w", op, d.Name, err)
		}
		return s.commit(ctx, op, lead, []clientv3.Cmp{absent(key)}, puts...)
	})
	if err != nil {
		return err
	}
	return damage
}

func (d Dataset) matches(stored Dataset) error {
	for _, f := range []struct {
		name          string
		stored, given any
	}{
		{"budget epsilon", stored.Budget.Epsilon, d.Budget.Epsilon},
		{"budget delta", stored.Budget.Delta, d.Budget.Delta},
		{"budget filter", cmp.Or(stored.Budget.Filter, privacy.FilterGDP), cmp.Or(d.Budget.Filter, privacy.FilterGDP)},
		{"privacy unit", stored.Unit, d.Unit},
		{"overlap", stored.Budget.Sites(), d.Budget.Sites()},
		{"schema", stored.SchemaSHA256, d.SchemaSHA256},
	} {
		if f.stored != f.given {
			return &MismatchError{Dataset: d.Name, Field: f.name, Stored: fmt.Sprint(f.stored),
				Given: fmt.Sprint(f.given)}
		}
	}
	return nil
}

func (s *Store) newEntry(lead *Leadership, kind, dataset string) ledger.Entry {
	entry := ledger.Entry{Type: kind, Dataset: dataset}
	if !entry.OfQuestion() {
		entry.Day = ledger.FormatDay(s.now())
	}
	if lead != nil { // commit refuses it
		entry.Fence = lead.Fence()
	}
	return entry
}

// appendEntries seals entries behind the head of record, if there is one, and makes the last
// one the head. It returns the puts of the entries and of the record.
func (s *Store) appendEntries(record *datasetRecord, entries ...ledger.Entry) ([]clientv3.Op, error) {
	var puts []clientv3.Op
	for _, entry := range entries {
		var previous *ledger.Entry
		if record.Head.Seq > 0 {
			previous = &record.Head
		}
		if err := entry.Seal(previous); err != nil {
			return nil, err
		}
		line, err := entry.Canonical()
		if err != nil {
			return nil, err
		}
		record.Head = entry
		puts = append(puts, clientv3.OpPut(s.entryKey(record.Name, entry.Seq), string(line)))
	}
	value, err := encode(record)
	if err != nil {
		return nil, err
	}
	return append(puts, clientv3.OpPut(s.datasetKey(record.Name), value)), nil
}

// Ledger returns the dataset's entries, oldest first. The error matches
// ErrNoDataset when there is none.
func (s *Store) Ledger(ctx context.Context, dataset string) ([]ledger.Entry, error) {
	if err := checkName("dataset", dataset); err != nil {
		return nil, err
	}
	kvs, err := s.list(ctx, "read the ledger", s.ledgerPrefix(dataset))
	if err != nil {
		return nil, err
	}
	if len(kvs) == 0 {
		return nil, fmt.Errorf("%w: %q", ErrNoDataset, dataset)
	}
	entries := make([]ledger.Entry, len(kvs))
	for i, kv := range kvs {
		if entries[i], err = decodeEntry(kv); err != nil {
			return nil, err
		}
	}
	return entries, nil
}

// Entries returns the canonical lines of at most the given number of the dataset's entries after one, oldest first.
func (s *Store) Entries(ctx context.Context, dataset string, after uint64, most int) ([][]byte, error) {
	if err := checkName("dataset", dataset); err != nil {
		return nil, err
	}
	bounded, cancel := s.request(ctx)
	defer cancel()
	r, err := s.client.Get(bounded, s.entryKey(dataset, after+1), clientv3.WithLimit(int64(most)),
		clientv3.WithRange(clientv3.GetPrefixRangeEnd(s.ledgerPrefix(dataset))))
	if err != nil {
		return nil, s.wrap(ctx, "read the ledger", err)
	}
	lines := make([][]byte, len(r.Kvs))
	for i, kv := range r.Kvs {
		lines[i] = kv.Value
	}
	return lines, nil
}

// decodeEntry checks that the decoded entry is exactly the stored one.
func decodeEntry(kv *mvccpb.KeyValue) (ledger.Entry, error) {
	entry, err := decode[ledger.Entry](kv)
	if err != nil {
		return entry, err
	}
	line, err := entry.Canonical()
	if err != nil {
		return entry, err
	}
	if !bytes.Equal(line, kv.Value) {
		return entry, fmt.Errorf("%w: key %s is not a canonical ledger entry; restore etcd from a backup",
			ErrCorrupt, kv.Key)
	}
	return entry, nil
}

// audit recomputes the ledger and compares it with the stored totals.
func (s *Store) audit(ctx context.Context, record datasetRecord) error {
	damaged := func(err error) error {
		return fmt.Errorf("%w: ledger of dataset %q: %w; restore etcd from a backup", ErrCorrupt, record.Name, err)
	}
	kvs, err := s.list(ctx, "read the ledger", s.ledgerPrefix(record.Name))
	if err != nil {
		return err
	}
	var lines bytes.Buffer
	for _, kv := range kvs {
		lines.Write(kv.Value)
		lines.WriteByte('\n')
	}
	v, err := ledger.Verify(&lines)
	if err != nil && !errors.Is(err, ledger.ErrUnclosed) {
		return damaged(err)
	}
	if v.Head != record.Head.Hash {
		return damaged(errors.New("its last entry is not the ledger head"))
	}
	if !slices.Equal(v.Events, record.Spent) {
		return damaged(errors.New("its releases do not add up to the dataset's total"))
	}
	for name, total := range v.Runs {
		run, err := s.Run(ctx, name)
		if errors.Is(err, ErrNoRun) || errors.Is(err, ErrCorrupt) {
			return damaged(err)
		}
		if err != nil { // nobody can tell
			return err
		}
		planned := 0.0
		if total.PlanPrice != nil {
			planned = total.PlanPrice.Epsilon
		}
		same := run.Dataset == record.Name && run.Budget == total.Budget && run.Closed == total.Closed &&
			run.Releases == uint64(total.Releases) && run.Abandoned == uint64(total.Abandoned)
		if !run.Removed { // nothing more is kept of a removed run
			same = same && slices.Equal(run.Plan, total.Plan) && math.Abs(run.PlanEpsilon-planned) <= 1e-9*planned &&
				slices.Equal(run.Used, total.Used) && slices.Equal(run.Spent, total.Events)
		}
		if !same {
			return damaged(fmt.Errorf("it does not match the record of run %q", name))
		}
	}
	return nil
}
