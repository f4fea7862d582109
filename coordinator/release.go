package coordinator

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/conclave-dp/conclave/internal/ledger"
)

const (
	// MaxRelease is the largest release in bytes: a sum of two million numbers.
	MaxRelease = 32 << 20
	// maxInline is the largest release, in bytes, that is stored in its record. In base64 it takes a quarter of the
	// request size that every etcd accepts, beside the charged totals.
	maxInline = 256 << 10
	// partBytes is the size of the parts of a larger one.
	partBytes = 1 << 20
)

// releaseRecord is the value of a release's key. The entry that paid for a release has its
// SHA-256, so that one charge commits all parts.
type releaseRecord struct {
	Dataset string `json:"dataset"`
	Seq     uint64 `json:"seq"` // of the entry that paid for it
	// Release is the whole release, unless it is stored in Parts, which have their own keys.
	Release []byte `json:"release,omitempty"`
	Parts   int    `json:"parts,omitempty"`
}

// partKey is the key of a part of a release. It sorts between the keys of this round and the next, so that
// deleting a release also deletes its parts.
func partKey(release string, part int) string {
	return fmt.Sprintf("%s%04x", partsPrefix(release), part)
}

func partsPrefix(release string) string { return release + "/" }

// storeRelease completes the record of a release that is about to be charged. A release that is too large for the
// record is stored in parts first. The charge then holds under the returned conditions, which are none if another store
// charged the round.
//
// Until the charge is committed, the parts belong to no ledger entry, and only readers of etcd itself can read them.
// Parts of a failed charge are dropped before others are stored, and when the run is closed.
func (s *Store) storeRelease(
	ctx context.Context, op string, lead *Leadership, key string, release []byte, record *releaseRecord,
) ([]clientv3.Cmp, error) {
	if len(release) <= maxInline {
		record.Release = release
		return []clientv3.Cmp{}, nil
	}
	uncharged := []clientv3.Cmp{absent(key)}
	written, err := s.commit(ctx, op, lead, uncharged, clientv3.OpDelete(partsPrefix(key), clientv3.WithPrefix()))
	if !written {
		return nil, err
	}
	// Each part depends on the previous one, and the charge on the last. A late write or deletion by another attempt
	// therefore stops this attempt, or is stopped by it.
	before := absent(partKey(key, 0))
	for from := 0; from < len(release); from += s.part {
		part := partKey(key, record.Parts)
		value := string(release[from:min(from+s.part, len(release))])
		revision, err := s.commitAt(ctx, op, lead, append(uncharged, before), clientv3.OpPut(part, value))
		if revision == 0 {
			return nil, err
		}
		before = clientv3.Compare(clientv3.ModRevision(part), "=", revision)
		record.Parts++
	}
	return []clientv3.Cmp{before}, nil
}

func (s *Store) joined(ctx context.Context, kv *mvccpb.KeyValue, record releaseRecord) ([]byte, error) {
	if record.Parts == 0 {
		return record.Release, nil
	}
	var all bytes.Buffer
	for i := range record.Parts {
		kvs, _, err := s.read(ctx, "read release", partKey(string(kv.Key), i), string(kv.Key))
		if err != nil {
			return nil, err
		}
		if kvs[1] == nil { // dropped meanwhile
			return nil, fmt.Errorf("read release: %w", ErrForgotten)
		}
		if kvs[0] == nil {
			return nil, fmt.Errorf("%w: key %s has %d parts and part %d is missing; restore etcd from a backup",
				ErrCorrupt, kv.Key, record.Parts, i)
		}
		all.Write(kvs[0].Value)
	}
	return all.Bytes(), nil
}

// Release returns the stored release of a round with the ledger entry that paid for it. found is false if the round was
// not charged, or was dropped: rounds below [Run.Forgotten] were.
func (s *Store) Release(ctx context.Context, run string,
	round uint64) (release []byte, entry ledger.Entry, found bool, err error) {
	if err := checkName("run", run); err != nil {
		return nil, ledger.Entry{}, false, err
	}
	kvs, _, err := s.read(ctx, "read release", s.releaseKey(run, round))
	if err != nil || kvs[0] == nil {
		return nil, ledger.Entry{}, false, err
	}
	if release, entry, err = s.stored(ctx, kvs[0]); err != nil {
		return nil, ledger.Entry{}, false, err
	}
	return release, entry, true, nil
}

// stored decodes a release and reads its entry, which must have its hash.
func (s *Store) stored(ctx context.Context, kv *mvccpb.KeyValue) ([]byte, ledger.Entry, error) {
	record, err := decode[releaseRecord](kv)
	if err != nil {
		return nil, ledger.Entry{}, err
	}
	kvs, _, err := s.read(ctx, "read release", s.entryKey(record.Dataset, record.Seq))
	if err != nil {
		return nil, ledger.Entry{}, err
	}
	if kvs[0] == nil {
		return nil, ledger.Entry{}, fmt.Errorf("%w: key %s has no ledger entry; restore etcd from a backup",
			ErrCorrupt, kv.Key)
	}
	entry, err := decodeEntry(kvs[0])
	if err != nil {
		return nil, ledger.Entry{}, err
	}
	release, err := s.joined(ctx, kv, record)
	if err != nil {
		return nil, ledger.Entry{}, err
	}
	if sum := sha256.Sum256(release); hex.EncodeToString(sum[:]) != entry.ReleaseSHA256 {
		return nil, ledger.Entry{}, fmt.Errorf("%w: key %s is not the release of its ledger entry; restore etcd "+
			"from a backup", ErrCorrupt, kv.Key)
	}
	return release, entry, nil
}
