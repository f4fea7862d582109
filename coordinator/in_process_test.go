package coordinator

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/conclave-dp/conclave/internal/testkit"
)

// Data written in the process can be read through the socket, and vice versa.
func TestInProcessAndThroughTheSocket(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	var mu sync.Mutex
	seen := map[string]int{}
	inside := openStore(t, Config{Embedded: c.etcd, Observe: func(method string, _ time.Duration, _ error) {
		mu.Lock()
		defer mu.Unlock()
		seen[method]++
	}})
	lead := leadAs(t, inside, "agg")
	for round := range uint64(6) {
		store := inside
		if round%2 == 1 {
			store = c.store
		}
		mustCharge(t, store, lead, testCharge("first", round, fmt.Sprint(round)))
	}
	within, _ := ledgerOf(t, inside)
	without, v := ledgerOf(t, c.store)
	if diff := cmp.Diff(without, within); diff != "" || v.Runs["first"].Releases != 6 {
		t.Errorf("%d releases\n%s", v.Runs["first"].Releases, diff)
	}
	testkit.Same(t, "", everything(t, c.store), everything(t, inside))
	mu.Lock()
	defer mu.Unlock()
	for _, method := range []string{etcdserverpb.KV_Txn_FullMethodName, etcdserverpb.KV_Range_FullMethodName,
		etcdserverpb.Lease_LeaseGrant_FullMethodName} {
		if seen[method] == 0 {
			t.Errorf("%s was not observed: %v", method, seen)
		}
	}
}

// etcd's refusals mean the same in the process and through the socket.
func TestInProcessErrors(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	for name, store := range map[string]*Store{
		"in the process":     openStore(t, Config{Embedded: c.etcd, RequestTimeout: time.Minute}),
		"through the socket": openStore(t, Config{Endpoints: c.etcd.Endpoints(), RequestTimeout: time.Minute}),
	} {
		t.Run(name, func(t *testing.T) {
			lead := leadAs(t, store, "agg")
			huge := clientv3.OpPut("/conclave/huge", strings.Repeat("x", maxRequest))
			if _, err := store.commit(testkit.Within(t), "write", lead, nil, huge); !errors.Is(err, ErrTooLarge) {
				t.Errorf("too large: %v", err)
			}
			leased := clientv3.OpPut("/conclave/leased", "x", clientv3.WithLease(12345))
			if _, err := store.commit(testkit.Within(t), "write", lead, nil, leased); !errors.Is(err, ErrNotLeader) {
				t.Errorf("no such lease: %v", err)
			}
			_, err := store.client.Put(testkit.Within(t), "/conclave/leased", "x", clientv3.WithLease(12345))
			if !errors.Is(err, rpctypes.ErrLeaseNotFound) || unanswered(err) {
				t.Errorf("no such lease: %v", err)
			}
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			if _, err := store.Run(ended, "first"); !errors.Is(err, context.Canceled) {
				t.Errorf("canceled: %v", err)
			}
			late, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
			defer cancel()
			if _, err := store.Run(late, "first"); !errors.Is(err, ErrUnavailable) ||
				!errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("late: %v", err)
			}
		})
	}
}

// etcd closes while stores read and write. They report that it is unavailable, and everything acknowledged is there
// afterwards.
func TestInProcessWhileEtcdCloses(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	store := openStore(t, Config{Embedded: c.etcd})
	lead := leadAs(t, store, "agg")
	var acknowledged atomic.Uint64
	var workers sync.WaitGroup
	working := make(chan struct{})
	workers.Go(func() {
		for round := uint64(0); ; round++ {
			_, _, err := store.Charge(testkit.Within(t), lead, testCharge("first", round, fmt.Sprint(round)))
			if err != nil {
				if !errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrNotLeader) {
					t.Errorf("charge: %v", err)
				}
				return
			}
			if acknowledged.Store(round + 1); round == 5 {
				close(working)
			}
		}
	})
	for range 3 {
		workers.Go(func() {
			for {
				if _, err := store.Ledger(testkit.Within(t), "flchain"); err != nil {
					if !errors.Is(err, ErrUnavailable) {
						t.Errorf("read: %v", err)
					}
					return
				}
			}
		})
	}
	testkit.Receive(t, working)
	testkit.Must(t, c.etcd.Close())
	workers.Wait()
	back := openStore(t, Config{Embedded: runEtcd(t, c.dir)})
	run, err := back.Run(testkit.Within(t), "first")
	if err != nil || run.Releases < acknowledged.Load() || run.Releases > acknowledged.Load()+1 {
		t.Errorf("%d releases, %d were acknowledged; %v", run.Releases, acknowledged.Load(), err)
	}
	if _, v := ledgerOf(t, back); uint64(v.Runs["first"].Releases) != run.Releases {
		t.Errorf("%d releases in the ledger, %d in the run", v.Runs["first"].Releases, run.Releases)
	}
}

// A leader that an etcd of this process still has is gone, under any name, however long its lease lasts.
func TestNobodyElseLeadsInTheProcess(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	inside := openStore(t, Config{Embedded: c.etcd})
	next, err := inside.Lead(testkit.Within(t), "renamed", time.Second)
	testkit.Must(t, err)
	testkit.Receive(t, c.lead.Context().Done())
	if next.Fence() <= c.lead.Fence() {
		t.Errorf("fence %d after %d", next.Fence(), c.lead.Fence())
	}
}
