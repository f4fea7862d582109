package coordinator

import (
	"context"
	"errors"
	"fmt"
)

// Mark names an entry of a dataset's ledger by its number and hash. Entries are chained, so
// who was told of one knows a ledger that does not hold it for another one: begun anew, or
// restored from before. The zero value names none.
type Mark struct {
	Seq  uint64
	Hash string // hex SHA-256
}

// ErrWentBack is what errors.Is finds in a [*WentBackError].
var ErrWentBack = errors.New("the ledger went back")

// WentBackError says that a ledger does not hold an entry that a node was told of.
type WentBackError struct {
	Dataset string
	Seen    Mark
	// Last is the number of the ledger's last entry.
	Last uint64
}

func (e *WentBackError) Error() string {
	return fmt.Sprintf("%v: the node was told of entry %d (%.12s) of dataset %q, whose ledger has %d and does not hold it: it was restored from a backup that is too old, or begun anew. "+
		"What was spent since would be spent again; restore a newer backup, or give a dataset that was begun anew on purpose another name",
		ErrWentBack, e.Seen.Seq, e.Seen.Hash, e.Dataset, e.Last)
}

// Is makes errors.Is(err, ErrWentBack) true.
func (e *WentBackError) Is(target error) bool { return target == ErrWentBack }

// CheckMark says whether a dataset's ledger holds the entry that was seen, with a
// [*WentBackError] where it does not. It returns the ledger's last one.
func (s *Store) CheckMark(ctx context.Context, dataset string, seen Mark) (last Mark, err error) {
	const op = "look for a ledger entry"
	if err := checkName("dataset", dataset); err != nil {
		return Mark{}, err
	}
	kvs, _, err := s.read(ctx, op, s.datasetKey(dataset), s.entryKey(dataset, seen.Seq))
	if err != nil {
		return Mark{}, err
	}
	if kvs[0] == nil {
		return Mark{}, fmt.Errorf("%s: %w: %q", op, ErrNoDataset, dataset)
	}
	record, err := decode[datasetRecord](kvs[0])
	if err != nil {
		return Mark{}, err
	}
	last = Mark{record.Head.Seq, record.Head.Hash}
	if seen == (Mark{}) {
		return last, nil
	}
	if kvs[1] != nil {
		entry, err := decodeEntry(kvs[1])
		if err != nil {
			return Mark{}, err
		}
		if entry.Hash == seen.Hash {
			return last, nil
		}
	}
	return Mark{}, &WentBackError{Dataset: dataset, Seen: seen, Last: last.Seq}
}

// KnownMark is the entry of a dataset's ledger that this store charged last while lead
// leads, without asking etcd; none where it charged none.
func (s *Store) KnownMark(lead *Leadership, dataset string) Mark {
	if lead == nil {
		return Mark{}
	}
	now := s.headOf(dataset).state.Load()
	if now == nil || now.fence != lead.fence {
		return Mark{}
	}
	return Mark{now.dataset.Head.Seq, now.dataset.Head.Hash}
}
