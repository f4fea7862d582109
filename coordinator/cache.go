package coordinator

import (
	"context"
	"maps"
	"sync/atomic"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// cache is the end of a dataset's ledger as this store wrote it last. Charges of all runs
// take turns at it, because each entry is chained to the one before: those that would meet
// in etcd would lose and begin anew. Whose turn it is begins with what the last one left
// instead of reading it, and so does who only looks. That may be wrong, because others write too: the commit
// compares, as it does with what was read, and then all is read.
type cache struct {
	turn  chan struct{}          // holds a token while nobody charges
	state atomic.Pointer[latest] // nil when nothing is known; replaced under turn
	// others counts what this store wrote to the dataset's record or its runs' and was no
	// charge: what was known before is no longer the end.
	others atomic.Uint64
	// newest is the last entry that is known to be in the ledger, whoever wrote it.
	newest atomic.Pointer[LedgerHead]
}

// latest is what one charge left. It is never changed.
type latest struct {
	fence     int64  // of the leadership that wrote it
	others    uint64 // as the cache counted before it was read or written
	dataset   datasetRecord
	datasetKV *mvccpb.KeyValue
	runs      map[string]Run // those that were charged since it is known
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

// cacheOfRun returns the cache of the dataset of a run, nil where that was not read yet.
func (s *Store) cacheOfRun(run string) *cache {
	dataset, ok := s.datasets.Load(run)
	if !ok {
		return nil
	}
	return s.cacheOf(dataset.(string))
}

// lock waits for the turn until ctx ends.
func (c *cache) lock(ctx context.Context) error {
	select {
	case <-c.turn:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *cache) unlock() { c.turn <- struct{}{} }

// known returns what [Store.load] would have read, or nil if the cache does not know it.
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

// uncharged is known for a round that is not charged yet, nil for others.
func (c *cache) uncharged(lead *Leadership, run string, round uint64) *loaded {
	if l := c.known(lead, run); l != nil && round >= l.run.Releases {
		return l
	}
	return nil
}

// learn keeps what was committed at a revision, with the puts of the dataset's record
// among ops; others is what the cache counted before the charge read anything. Callers hold
// the turn.
func (c *cache) learn(lead *Leadership, l *loaded, others uint64, revision int64, ops []clientv3.Op) {
	next := &latest{fence: lead.fence, others: others, dataset: l.dataset, runs: map[string]Run{}}
	if before := c.state.Load(); before != nil && before.fence == lead.fence && before.others == others &&
		before.datasetKV.ModRevision == l.datasetKV.ModRevision {
		maps.Copy(next.runs, before.runs)
	} // else records of other runs are older than what was read for this one
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

// forget has the next charge read everything. Callers hold the turn.
func (c *cache) forget() { c.state.Store(nil) }

// wrote notes that this store may have written to a dataset's record what was no charge.
func (s *Store) wrote(dataset string) { s.cacheOf(dataset).others.Add(1) }
