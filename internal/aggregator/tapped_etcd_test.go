package aggregator

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/conclave-dp/conclave/coordinator"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// tappedEtcd is an etcd whose ledger entries cannot be read while away is set. It counts reads of run records.
type tappedEtcd struct {
	coordinator.Embedded
	away atomic.Bool
	runs atomic.Int64
}

// tap gives the rounds and the queue of the cluster's server a tapped etcd, before any request.
func (c *cluster) tap(t *testing.T) *tappedEtcd {
	t.Helper()
	e := &tappedEtcd{Embedded: c.server.embedded}
	store, err := coordinator.Open(testkit.Within(t), coordinator.Config{Embedded: e})
	testkit.Must(t, err)
	t.Cleanup(func() { testkit.Must(t, store.Close()) })
	c.server.rounds.Store, c.server.queue.Store = store, store
	return e
}

// KV is the etcd's KV, tapped.
func (e *tappedEtcd) KV(client *clientv3.Client, observe func(string, time.Duration, error)) clientv3.KV {
	return tappedKV{e.Embedded.KV(client, observe), e}
}

func (e *tappedEtcd) count(kvs []*mvccpb.KeyValue) {
	for _, kv := range kvs {
		if strings.HasPrefix(string(kv.Key), "/conclave/runs/") {
			e.runs.Add(1)
		}
	}
}

type tappedKV struct {
	clientv3.KV
	etcd *tappedEtcd
}

func (k tappedKV) Get(ctx context.Context, key string, o ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	if k.etcd.away.Load() && strings.HasPrefix(key, "/conclave/ledger/") {
		return nil, status.Error(codes.Unavailable, "the ledger cannot be read")
	}
	r, err := k.KV.Get(ctx, key, o...)
	if err == nil {
		k.etcd.count(r.Kvs)
	}
	return r, err
}

func (k tappedKV) Txn(ctx context.Context) clientv3.Txn { return tappedTxn{k.KV.Txn(ctx), k.etcd} }

type tappedTxn struct {
	clientv3.Txn
	etcd *tappedEtcd
}

func (x tappedTxn) If(c ...clientv3.Cmp) clientv3.Txn  { return tappedTxn{x.Txn.If(c...), x.etcd} }
func (x tappedTxn) Then(o ...clientv3.Op) clientv3.Txn { return tappedTxn{x.Txn.Then(o...), x.etcd} }
func (x tappedTxn) Else(o ...clientv3.Op) clientv3.Txn { return tappedTxn{x.Txn.Else(o...), x.etcd} }

func (x tappedTxn) Commit() (*clientv3.TxnResponse, error) {
	r, err := x.Txn.Commit()
	if err == nil {
		for _, response := range r.Responses {
			x.etcd.count(response.GetResponseRange().GetKvs())
		}
	}
	return r, err
}
