package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/conclave-dp/conclave/coordinator"
)

const (
	// Limits of one transaction: etcd takes 128 operations and 1.5 MiB. A line is longer than its value.
	mostKeys  = 100
	mostBytes = 1 << 20
)

// ErrNotEmpty says that etcd has keys, which are kept.
var ErrNotEmpty = errors.New("etcd already has keys under this prefix, and a ledger is never overwritten; start with " +
	"an empty etcd")

// Restore loads a file of size bytes into an etcd that has nothing under the store's prefix. It first reads the file
// and checks its digest. No aggregator leads until the restore is complete; an interrupted restore continues with the
// same file. The error matches [ErrNotEmpty] or [ErrDamaged].
func Restore(ctx context.Context, store *coordinator.Store, file io.ReaderAt, size int64) (Summary, error) {
	places, sum, err := index(io.NewSectionReader(file, 0, size))
	if err != nil {
		return Summary{}, err
	}
	kv, prefix := store.Keys()
	r := restore{kv: kv, prefix: prefix, name: fmt.Sprintf(`{"name":"restore-%s"}`, sum.SHA256[:16])}
	if err := r.begin(ctx); err != nil {
		return Summary{}, err
	}
	for from := 0; from < len(places); {
		to := batch(places, from)
		if err := r.put(ctx, file, places[from:to]); err != nil {
			return Summary{}, err
		}
		from = to
	}
	return sum, r.commit(ctx,
		clientv3.OpPut(prefix+coordinator.FenceBaseKey, strconv.FormatInt(sum.Fence, 10)),
		clientv3.OpDelete(prefix+coordinator.LeaderKey))
}

// batch returns the end of the records to write together, starting at from. Two queued runs are never written
// together, because the creation order of their keys is their order in the queue.
func batch(places []place, from int) (to int) {
	bytes, queued := 0, false
	for to = from; to < len(places) && to < from+mostKeys; to++ {
		p := places[to]
		if bytes += p.length; to > from && (bytes > mostBytes || queued && p.queued) {
			break
		}
		queued = queued || p.queued
	}
	return to
}

type restore struct {
	kv     clientv3.KV
	prefix string
	name   string // value of the leader's key during the restore
}

// begin keeps aggregators from leading, if etcd is empty or this file's restore was begun before.
func (r restore) begin(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	leader := r.prefix + coordinator.LeaderKey
	found, err := r.kv.Get(bounded, r.prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly(), clientv3.WithLimit(1))
	if err != nil {
		return fmt.Errorf("restore %s: %w", r.prefix, err)
	}
	if len(found.Kvs) == 0 {
		if _, err := r.kv.Txn(bounded).If(clientv3.Compare(clientv3.CreateRevision(leader), "=", 0)).
			Then(clientv3.OpPut(leader, r.name)).Commit(); err != nil {
			return fmt.Errorf("restore %s: %w", r.prefix, err)
		}
	}
	now, err := r.kv.Get(bounded, leader)
	if err != nil {
		return fmt.Errorf("restore %s: %w", r.prefix, err)
	}
	if len(now.Kvs) == 0 || string(now.Kvs[0].Value) != r.name {
		return fmt.Errorf("restore %s: %w", r.prefix, ErrNotEmpty)
	}
	return nil
}

func (r restore) put(ctx context.Context, file io.ReaderAt, places []place) error {
	puts := make([]clientv3.Op, len(places))
	for i, p := range places {
		line := make([]byte, p.length)
		if _, err := file.ReadAt(line, p.offset); err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("read the backup: %w", err)
		}
		var v record
		if err := json.Unmarshal(line, &v); err != nil {
			return fmt.Errorf("%w: %w", ErrDamaged, err)
		}
		puts[i] = clientv3.OpPut(r.prefix+v.Key, string(v.Value))
	}
	return r.commit(ctx, puts...)
}

func (r restore) commit(ctx context.Context, ops ...clientv3.Op) error {
	bounded, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	done, err := r.kv.Txn(bounded).
		If(clientv3.Compare(clientv3.Value(r.prefix+coordinator.LeaderKey), "=", r.name)).Then(ops...).Commit()
	if err != nil {
		return fmt.Errorf("restore %s: %w; run the restore again with the same file", r.prefix, err)
	}
	if !done.Succeeded {
		return fmt.Errorf("restore %s: another client wrote to etcd in the meantime: %w", r.prefix, ErrNotEmpty)
	}
	return nil
}
