package coordinator

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/conclave-dp/conclave/internal/testkit"
)

func ended(t *testing.T, l *Leadership, within time.Duration) {
	t.Helper()
	select {
	case <-l.Context().Done():
		if cause := context.Cause(l.Context()); !errors.Is(cause, ErrNotLeader) {
			t.Errorf("cause %v", cause)
		}
	case <-time.After(within):
		t.Fatalf("leadership did not end within %v", within)
	}
}

// A process crashed and left its leadership behind. The next process with the same name does not wait for the lease.
func TestTakeoverOfTheSameNameIsImmediate(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	other := openStore(t, Config{Endpoints: c.etcd.Endpoints()})
	next := leadAs(t, other, "agg")
	if next.Fence() <= c.lead.Fence() {
		t.Errorf("fence %d after %d", next.Fence(), c.lead.Fence())
	}
	ended(t, c.lead, testkit.Patience)
	if next.Context().Err() != nil {
		t.Error("the new leadership ended")
	}
}

func TestFencedOffLeaderWritesNothing(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	ctx := testkit.Within(t)
	mustCharge(t, c.store, c.lead, testCharge("first", 0, "answer"))
	leadAs(t, openStore(t, Config{Endpoints: c.etcd.Endpoints()}), "agg")
	before := everything(t, c.store)
	for name, write := range map[string]func(*Leadership) error{
		"charge": func(l *Leadership) error {
			_, _, err := c.store.Charge(ctx, l, testCharge("first", 1, "late"))
			return err
		},
		"open dataset": func(l *Leadership) error {
			d := testDataset
			d.Name = "other"
			return c.store.OpenDataset(ctx, l, d)
		},
		"open known dataset": func(l *Leadership) error { return c.store.OpenDataset(ctx, l, testDataset) },
		"open run": func(l *Leadership) error {
			_, err := c.store.OpenRun(ctx, l, testRun("second"))
			return err
		},
		"close run":  func(l *Leadership) error { _, _, err := c.store.CloseRun(ctx, l, "first", "", ""); return err },
		"admit node": func(l *Leadership) error { return c.store.AdmitNode(ctx, l, testNode()) },
	} {
		for who, l := range map[string]*Leadership{"deposed": c.lead, "nobody": nil} {
			if err := write(l); !errors.Is(err, ErrNotLeader) {
				t.Errorf("%s by %s: %v, want ErrNotLeader", name, who, err)
			}
		}
	}
	testkit.Same(t, "a deposed leader wrote", before, everything(t, c.store))
	// A release stays released: repeating it reveals nothing new.
	release, _, err := c.store.Charge(ctx, c.lead, testCharge("first", 0, "other"))
	if err != nil || string(release) != "answer" {
		t.Errorf("stored round: %q, %v", release, err)
	}
}

func TestStandbyWaits(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	standby := openStore(t, Config{Endpoints: c.etcd.Endpoints()})
	elected := make(chan *Leadership, 1)
	go func() {
		l, err := standby.Lead(testkit.Within(t), "standby", time.Minute)
		if err != nil {
			t.Error(err)
		}
		elected <- l
	}()
	select {
	case <-elected:
		t.Fatal("two leaders")
	case <-time.After(300 * time.Millisecond):
	}
	testkit.Must(t, c.lead.Resign(testkit.Within(t)))
	select {
	case l := <-elected:
		if _, _, err := standby.Charge(testkit.Within(t), l, testCharge("first", 0, "answer")); err != nil {
			t.Error(err)
		}
	case <-time.After(testkit.Patience):
		t.Fatal("the standby did not take over")
	}
	ended(t, c.lead, testkit.Patience)
	if err := c.lead.Resign(testkit.Within(t)); err != nil {
		t.Errorf("resigning twice: %v", err)
	}
	entries, _ := ledgerOf(t, standby)
	if first, last := entries[0].Fence, entries[len(entries)-1].Fence; last <= first {
		t.Errorf("fences %d, %d", first, last)
	}
}

// When a leader's process dies silently, the next leader takes over after the lease.
func TestLeaseRunsOut(t *testing.T) {
	t.Parallel()
	etcd := runEtcd(t, t.TempDir())
	dead := openStore(t, Config{Endpoints: etcd.Endpoints()})
	l, err := dead.Lead(testkit.Within(t), "dead", time.Second)
	testkit.Must(t, err)
	dead.Close()
	ended(t, l, testkit.Patience)
	leadAs(t, openStore(t, Config{Endpoints: etcd.Endpoints()}), "alive")
}

// A leader renews its lease long before it would expire. The lease is longer than any pause of a busy machine.
func TestLeadershipRenewsItsLease(t *testing.T) {
	t.Parallel()
	etcd := runEtcd(t, t.TempDir())
	s := openStore(t, Config{Endpoints: etcd.Endpoints()})
	l, err := s.Lead(testkit.Within(t), "agg", 30*time.Second)
	testkit.Must(t, err)
	left := func() int64 {
		r, err := s.client.TimeToLive(testkit.Within(t), l.lease)
		testkit.Must(t, err)
		return r.TTL // seconds
	}
	least := left()
	testkit.Eventually(t, "the lease to be renewed", func() bool {
		now := left()
		least = min(least, now)
		return now >= least+5 // renewed after a third of the lease
	})
	if err := l.Context().Err(); err != nil {
		t.Error(context.Cause(l.Context()))
	}
	if err := s.OpenDataset(testkit.Within(t), l, testDataset); err != nil {
		t.Error(err)
	}
}

func TestLeadRefuses(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	if _, err := c.store.Lead(testkit.Within(t), "a/b", time.Minute); !errors.Is(err, ErrBadName) {
		t.Errorf("bad name: %v", err)
	}
	if _, err := c.store.Lead(testkit.Within(t), "b", time.Millisecond); err == nil {
		t.Error("a lease of a millisecond was accepted")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := c.store.Lead(ctx, "b", time.Minute); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("waiting in vain: %v", err)
	}
}
