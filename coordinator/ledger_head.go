package coordinator

import (
	"context"
	"errors"
	"fmt"

	"github.com/conclave-dp/conclave/internal/ledger"
)

// LedgerHead names an entry of a dataset's ledger by its number and hash. Entries are chained, so a peer that knows a
// head recognizes a ledger without it as a different one: started anew, or restored from an earlier state. The zero
// value names none.
type LedgerHead struct {
	Seq  uint64
	Hash string // hex SHA-256
}

func headOf(e ledger.Entry) LedgerHead { return LedgerHead{e.Seq, e.Hash} }

func (m LedgerHead) String() string { return fmt.Sprintf("entry %d (%s)", m.Seq, m.Hash) }

// ErrRollback matches a [*RollbackError] with errors.Is.
var ErrRollback = errors.New("the ledger went back")

// RollbackError says that a ledger lacks an entry that it had.
type RollbackError struct {
	Dataset string
	// Seen is the entry, Last the ledger's last one.
	Seen, Last LedgerHead
}

func (e *RollbackError) Error() string {
	return fmt.Sprintf("%v: %v of dataset %q is not in its ledger, which ends with %v: etcd was restored from a "+
		"backup that is too old, or recreated, and later spending would be repeated; restore a newer backup "+
		"(docs/backup.md), or have each site accept the old one with `teacher "+
		"accept-ledger`", ErrRollback, e.Seen, e.Dataset, e.Last)
}

func (e *RollbackError) Is(target error) bool { return target == ErrRollback }

// CheckHead checks that a dataset's ledger holds the entry that was seen, with a [*RollbackError] otherwise. It returns
// the ledger's last entry.
func (s *Store) CheckHead(ctx context.Context, dataset string, seen LedgerHead) (last LedgerHead, err error) {
	const op = "look up a ledger entry"
	if err := checkName("dataset", dataset); err != nil {
		return LedgerHead{}, err
	}
	check := s.cacheOf(dataset).reading()
	kvs, _, err := s.read(ctx, op, s.datasetKey(dataset), s.entryKey(dataset, seen.Seq))
	if err != nil {
		return LedgerHead{}, err
	}
	if kvs[0] == nil {
		return LedgerHead{}, fmt.Errorf("%s: %w: %q", op, ErrNoDataset, dataset)
	}
	record, err := decode[datasetRecord](kvs[0])
	if err != nil {
		return LedgerHead{}, err
	}
	if err := check(record); err != nil {
		return LedgerHead{}, err
	}
	last = headOf(record.Head)
	if seen == (LedgerHead{}) {
		return last, nil
	}
	if kvs[1] != nil {
		entry, err := decodeEntry(kvs[1])
		if err != nil {
			return LedgerHead{}, err
		}
		if entry.Hash == seen.Hash {
			return last, nil
		}
	}
	return LedgerHead{}, &RollbackError{Dataset: dataset, Seen: seen, Last: last}
}

// Head is the ledger's last entry at the time of the snapshot.
func (n *Snapshot) Head() LedgerHead { return headOf(n.loaded.dataset.Head) }

// note remembers an entry of the ledger for the lifetime of this process.
func (c *cache) note(m LedgerHead) {
	for {
		known := c.newest.Load()
		if known != nil && known.Seq >= m.Seq || c.newest.CompareAndSwap(known, &m) {
			return
		}
	}
}

// reading returns a check of the dataset's record, which must be read after the call: its ledger did not go back behind
// an entry that was known before. An etcd that is restored under a running leader may still have its lease, and nothing
// else would detect that.
func (c *cache) reading() func(datasetRecord) error {
	known := c.newest.Load()
	return func(record datasetRecord) error {
		last := headOf(record.Head)
		if known != nil && (last.Seq < known.Seq || last.Seq == known.Seq && last != *known) {
			return &RollbackError{Dataset: record.Name, Seen: *known, Last: last}
		}
		c.note(last)
		return nil
	}
}
