package coordinator

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conclave-dp/conclave/privacy"
)

func snapshot(t *testing.T, s *Store, run string) *Snapshot {
	t.Helper()
	n, err := s.Snapshot(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// A charge that begins with what was read before asks etcd once.
func TestChargeWithASnapshotIsOneRequest(t *testing.T) {
	c := newCluster(t)
	var requests atomic.Int64
	counting := openStore(t, Config{Endpoints: c.etcd.Endpoints(), Observe: func(method string, _ time.Duration, _ error) {
		if strings.HasSuffix(method, "/Txn") {
			requests.Add(1)
		}
	}})
	charge := testCharge("first", 0, "answer")
	charge.Seen = snapshot(t, counting, "first")
	before := requests.Load()
	if _, _, err := counting.Charge(t.Context(), c.lead, charge); err != nil {
		t.Fatal(err)
	}
	if n := requests.Load() - before; n != 1 {
		t.Errorf("%d requests", n)
	}
}

// Whatever happened since, a charge ends as one without a snapshot does.
func TestChargeWithAnOldSnapshot(t *testing.T) {
	t.Run("another run was charged", func(t *testing.T) {
		c := newCluster(t)
		if _, err := c.store.OpenRun(t.Context(), c.lead, testRun("second")); err != nil {
			t.Fatal(err)
		}
		old := snapshot(t, c.store, "first")
		for round := range uint64(3) {
			if _, _, err := c.store.Charge(t.Context(), c.lead, testCharge("second", round, "other")); err != nil {
				t.Fatal(err)
			}
		}
		charge := testCharge("first", 0, "answer")
		charge.Seen = old
		if release, entry, err := c.store.Charge(t.Context(), c.lead, charge); err != nil || string(release) != "answer" || entry.Seq != 7 {
			t.Fatalf("%q, entry %d, %v", release, entry.Seq, err)
		}
		_, dataset, err := c.store.Purses(t.Context(), "first")
		if err != nil || len(dataset.Spent) != 1 || dataset.Spent[0].Count != 16 {
			t.Errorf("the dataset has spent %v, %v", dataset.Spent, err)
		}
		ledger(t, c.store)
	})
	t.Run("the round was charged", func(t *testing.T) {
		c := newCluster(t)
		charge := testCharge("first", 0, "another answer")
		charge.Seen = snapshot(t, c.store, "first")
		if _, _, err := c.store.Charge(t.Context(), c.lead, testCharge("first", 0, "answer")); err != nil {
			t.Fatal(err)
		}
		if release, _, err := c.store.Charge(t.Context(), c.lead, charge); err != nil || string(release) != "answer" {
			t.Errorf("%q, %v", release, err)
		}
		if _, v := ledger(t, c.store); v.Runs["first"].Releases != 1 {
			t.Errorf("%d releases", v.Runs["first"].Releases)
		}
	})
	t.Run("the run was closed", func(t *testing.T) {
		c := newCluster(t)
		charge := testCharge("first", 0, "answer")
		charge.Seen = snapshot(t, c.store, "first")
		if _, err := c.store.CloseRun(t.Context(), c.lead, "first"); err != nil {
			t.Fatal(err)
		}
		if _, _, err := c.store.Charge(t.Context(), c.lead, charge); !errors.Is(err, ErrRunClosed) {
			t.Errorf("error %v", err)
		}
	})
	t.Run("the budget was used up", func(t *testing.T) {
		c := newCluster(t)
		costly := func(round uint64) Charge {
			charge := testCharge("first", round, "answer")
			charge.Events = []privacy.Event{{Kind: privacy.GNMax, Sigma: 12, Count: 4}}
			return charge
		}
		second := costly(1)
		second.Seen = snapshot(t, c.store, "first")
		if _, _, err := c.store.Charge(t.Context(), c.lead, costly(0)); err != nil {
			t.Fatal(err)
		}
		if _, _, err := c.store.Charge(t.Context(), c.lead, second); !errors.Is(err, privacy.ErrOverBudget) {
			t.Errorf("error %v", err)
		}
	})
	t.Run("somebody else leads", func(t *testing.T) {
		c := newCluster(t)
		charge := testCharge("first", 0, "answer")
		charge.Seen = snapshot(t, c.store, "first")
		other := openStore(t, Config{Endpoints: c.etcd.Endpoints()})
		leadAs(t, other, "agg") // the same name takes over
		if _, _, err := c.store.Charge(t.Context(), c.lead, charge); !errors.Is(err, ErrNotLeader) {
			t.Errorf("error %v", err)
		}
	})
	t.Run("it is of another run", func(t *testing.T) {
		c := newCluster(t)
		if _, err := c.store.OpenRun(t.Context(), c.lead, testRun("second")); err != nil {
			t.Fatal(err)
		}
		charge := testCharge("first", 0, "answer")
		charge.Seen = snapshot(t, c.store, "second")
		if _, entry, err := c.store.Charge(t.Context(), c.lead, charge); err != nil || entry.Run != "first" {
			t.Errorf("entry %+v, %v", entry, err)
		}
		if _, v := ledger(t, c.store); v.Runs["second"].Releases != 0 || v.Runs["first"].Releases != 1 {
			t.Errorf("releases %+v", v.Runs)
		}
	})
}

func TestStanding(t *testing.T) {
	c := newCluster(t)
	if _, err := c.store.Standing(t.Context(), "nobody", 0); !errors.Is(err, ErrNoRun) {
		t.Errorf("error %v", err)
	}
	if n, err := c.store.Standing(t.Context(), "first", 0); err != nil || n.Found || n.Run.Name != "first" || n.Run.Releases != 0 {
		t.Errorf("%+v, %v", n, err)
	}
	_, paid, err := c.store.Charge(t.Context(), c.lead, testCharge("first", 0, "answer"))
	if err != nil {
		t.Fatal(err)
	}
	n, err := c.store.Standing(t.Context(), "first", 0)
	if err != nil || !n.Found || string(n.Release) != "answer" || n.Entry.Hash != paid.Hash || n.Run.Releases != 1 {
		t.Errorf("%+v, %v", n, err)
	}
}
