package coordinator

import (
	"context"
	"maps"
	"sync/atomic"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// cache holds the end of a dataset's ledger as this store last wrote it. Charges of all runs take turns, because each
// entry is chained to the one before; charges that met in etcd would fail and start again. Each turn, and each
// read-only lookup, starts from the state that the last turn left, instead of reading it. That state may be stale,
// because other stores write too. The commit compares revisions, as it does after a read, and on a conflict everything
// is read again.
type cache struct {
	turn  chan struct{}          // holds a token while nobody charges
	state atomic.Pointer[latest] // nil while nothing is known; replaced while the turn is held
	// others counts this store's writes to the record of the dataset or its runs other than charges. After such a write
	// the cached state is no longer the end.
	others atomic.Uint64
	// newest is the last entry known to be in the ledger, whichever store wrote it.
	newest atomic.Pointer[LedgerHead]
}

// latest is the state after one charge. It is never changed.
type latest struct {
	fence     int64  // of the leadership that wrote it
	others    uint64 // the cache's count before it was read or written
	dataset   datasetRecord
	datasetKV *mvccpb.KeyValue
	runs      map[string]Run // runs charged since this state is known
}

func (s *Store) cacheOf(dataset string) *cache {
	if h, ok := s.caches.Load(dataset); ok {
		return h.(*cache)
	}
	fresh := &cache{turn: make(chan struct{}, 1)}
	fresh.turn <- struct{}{}
	h, _ := s.caches.LoadOrStore(dataset, fresh)
	return h.(*cache)
}

// cacheOfRun returns the cache of a run's dataset, or nil if that was not read yet.
func (s *Store) cacheOfRun(run string) *cache {
	dataset, ok := s.datasets.Load(run)
	if !ok {
		return nil
	}
	return s.cacheOf(dataset.(string))
}

// lock waits for its turn until ctx ends.
func (c *cache) lock(ctx context.Context) error {
	select {
	case <-c.turn:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *cache) unlock() { c.turn <- struct{}{} }

// known returns the state that [Store.load] would read, or nil if the cache does not have it.
func (c *cache) known(lead *Leadership, run string) *loaded {
	if c == nil || lead == nil || lead.ctx.Err() != nil {
		return nil
	}
	now := c.state.Load()
	if now == nil || now.fence != lead.fence || now.others != c.others.Load() {
		return nil
	}
	r, ok := now.runs[run]
	if !ok {
		return nil
	}
	return &loaded{run: r, dataset: now.dataset, datasetKV: now.datasetKV}
}

// uncharged is known for a round that is not charged yet, and nil for other rounds.
func (c *cache) uncharged(lead *Leadership, run string, round uint64) *loaded {
	if l := c.known(lead, run); l != nil && round >= l.run.Releases {
		return l
	}
	return nil
}

// learn caches a commit at its revision, with the puts of the dataset's record among ops. others is the cache's count
// before the charge read anything. Callers hold the lock.
func (c *cache) learn(lead *Leadership, l *loaded, others uint64, revision int64, ops []clientv3.Op) {
	next := &latest{fence: lead.fence, others: others, dataset: l.dataset, runs: map[string]Run{}}
	if before := c.state.Load(); before != nil && before.fence == lead.fence && before.others == others &&
		before.datasetKV.ModRevision == l.datasetKV.ModRevision {
		maps.Copy(next.runs, before.runs)
	} // otherwise records of other runs may be older than this one's
	next.runs[l.run.Name] = l.run
	value := l.datasetKV.Value
	for _, op := range ops {
		if string(op.KeyBytes()) == string(l.datasetKV.Key) {
			value = op.ValueBytes()
		}
	}
	next.datasetKV = &mvccpb.KeyValue{Key: l.datasetKV.Key, Value: value, ModRevision: revision}
	c.state.Store(next)
	c.note(headOf(l.dataset.Head))
}

// forget makes the next charge read everything. Callers hold the lock.
func (c *cache) forget() { c.state.Store(nil) }

// wrote records that this store may have written something other than a charge to a dataset's record.
func (s *Store) wrote(dataset string) { s.cacheOf(dataset).others.Add(1) }
