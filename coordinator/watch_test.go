package coordinator

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/testkit"
)

func TestLeaderAndSpent(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	ctx := testkit.Within(t)
	if name, err := c.store.Leader(ctx); err != nil || name != "agg" {
		t.Errorf("%q leads, %v", name, err)
	}
	mustCharge(t, c.store, c.lead, testCharge("first", 0, "answer"))
	spending, err := c.store.Spent(ctx, testDataset.Name)
	if err != nil || spending.Budget != testDataset.Budget {
		t.Fatalf("%+v, %v", spending, err)
	}
	want, err := privacy.Account(costOf(testCharge("first", 0, "")), testDataset.Budget.Delta)
	testkit.Must(t, err)
	if got, err := spending.EpsilonSpent(); err != nil || got != want.Epsilon {
		t.Errorf("epsilon %v, %v; want %v", got, err, want.Epsilon)
	}
	if _, err := c.store.Spent(ctx, "other"); !errors.Is(err, ErrNoDataset) {
		t.Errorf("a dataset that was not opened: %v", err)
	}
	testkit.Must(t, c.lead.Resign(ctx))
	if name, err := c.store.Leader(ctx); err != nil || name != "" {
		t.Errorf("after it resigned %q leads, %v", name, err)
	}
}

func TestRequestsAreObserved(t *testing.T) {
	t.Parallel()
	etcd := runEtcd(t, t.TempDir())
	var mu sync.Mutex
	seen, failed := map[string]int{}, 0
	s := openStore(t, Config{Endpoints: etcd.Endpoints(), Observe: func(method string, took time.Duration, err error) {
		mu.Lock()
		defer mu.Unlock()
		seen[method]++
		if err != nil {
			failed++
		}
		if took < 0 || took > time.Minute {
			t.Errorf("%s took %v", method, took)
		}
	}})
	leadAs(t, s, "agg")
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Leader(gone); err == nil {
		t.Error("a request that was given up has an answer")
	}
	mu.Lock()
	defer mu.Unlock()
	if seen["/etcdserverpb.KV/Txn"] < 3 || seen["/etcdserverpb.Lease/LeaseGrant"] != 1 || failed == 0 {
		t.Errorf("observed %v, %d failed", seen, failed)
	}
}
