package coordinator

import (
	"context"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// head is the end of a dataset's ledger as this store wrote it last. Charges of all runs
// take turns at it, because each entry is chained to the one before: those that would meet
// in etcd would lose and begin anew. Whose turn it is begins with what the last one left
// instead of reading it. That may be wrong, because others write too: the commit
// compares, as it does with what was read, and then all is read.
type head struct {
	turn chan struct{} // holds a token while nobody charges

	// Under turn. datasetKV is nil when nothing is known.
	fence     int64 // of the leadership that wrote it
	dataset   datasetRecord
	datasetKV *mvccpb.KeyValue
	runs      map[string]Run // those that were charged since it is known
}

// headOf returns the head of a dataset.
func (s *Store) headOf(dataset string) *head {
	fresh := &head{turn: make(chan struct{}, 1)}
	fresh.turn <- struct{}{}
	h, _ := s.heads.LoadOrStore(dataset, fresh)
	return h.(*head)
}

// lock waits for the turn until ctx ends.
func (h *head) lock(ctx context.Context) error {
	select {
	case <-h.turn:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (h *head) unlock() { h.turn <- struct{}{} }

// loaded is what [Store.load] would have read for a round that is not charged yet, nil
// where it is not known.
func (h *head) loaded(lead *Leadership, run string, round uint64) *loaded {
	if h.datasetKV == nil || lead == nil || h.fence != lead.fence {
		return nil
	}
	r, ok := h.runs[run]
	if !ok || round < r.Releases {
		return nil
	}
	return &loaded{run: r, dataset: h.dataset, datasetKV: h.datasetKV}
}

// learn keeps what was committed at a revision, with the puts of the dataset's record
// among ops.
func (h *head) learn(lead *Leadership, l *loaded, revision int64, ops []clientv3.Op) {
	if h.datasetKV == nil || h.fence != lead.fence || h.datasetKV.ModRevision != l.datasetKV.ModRevision {
		h.runs = nil // records of other runs are older than what was read for this one
	}
	value := l.datasetKV.Value
	for _, op := range ops {
		if string(op.KeyBytes()) == string(l.datasetKV.Key) {
			value = op.ValueBytes()
		}
	}
	if h.runs == nil {
		h.runs = map[string]Run{}
	}
	h.runs[l.run.Name] = l.run
	h.fence, h.dataset = lead.fence, l.dataset
	h.datasetKV = &mvccpb.KeyValue{Key: l.datasetKV.Key, Value: value, ModRevision: revision}
}

// forget has the next charge read everything.
func (h *head) forget() { h.datasetKV, h.runs = nil, nil }
