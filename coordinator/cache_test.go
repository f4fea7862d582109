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

	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// counting is a store that counts its transactions.
func counting(t *testing.T, c *cluster) (*Store, *atomic.Int64) {
	t.Helper()
	requests := new(atomic.Int64)
	return openStore(t, Config{Endpoints: c.etcd.Endpoints(), Observe: func(method string, _ time.Duration, _ error) {
		if strings.HasSuffix(method, "/Txn") {
			requests.Add(1)
		}
	}}), requests
}

// Concurrent charges of several runs do not conflict: each takes one request.
func TestChargesTakeTurns(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	store, requests := counting(t, c)
	names := []string{"first", "second", "third"}
	for _, name := range names[1:] {
		mustOpen(t, store, c.lead, testRun(name))
	}
	const rounds = 10
	charge := func(from, to uint64) {
		var runs sync.WaitGroup
		for _, name := range names {
			runs.Go(func() {
				for round := from; round < to; round++ {
					if _, _, err := store.Charge(testkit.Within(t), c.lead,
						testCharge(name, round, fmt.Sprint(name, round))); err != nil {
						t.Error(err)
					}
				}
			})
		}
		runs.Wait()
	}
	charge(0, 1) // each reads its run once
	before := requests.Load()
	charge(1, rounds)
	if n, want := requests.Load()-before, int64(len(names)*(rounds-1)); n != want {
		t.Errorf("%d requests for %d charges", n, want)
	}
	_, v := ledgerOf(t, store)
	for _, name := range names {
		if v.Runs[name].Releases != rounds {
			t.Errorf("run %s has %d releases", name, v.Runs[name].Releases)
		}
		for round := range uint64(rounds) {
			if release, _, found, err := store.Release(testkit.Within(t), name,
				round); err != nil || !found || string(release) != fmt.Sprint(name, round) {
				t.Errorf("round %d of %s: %q, %v", round, name, release, err)
			}
		}
	}
}

// A store's cached end of the ledger may be wrong. A charge then behaves like one that reads.
func TestChargesBesideOtherWriters(t *testing.T) {
	t.Parallel()
	begin := func(t *testing.T) (c *cluster, other *Store) {
		c = newCluster(t)
		mustOpen(t, c.store, c.lead, testRun("second"))
		for _, run := range []string{"first", "second"} {
			mustCharge(t, c.store, c.lead, testCharge(run, 0, "answer"))
		}
		return c, openStore(t, Config{Endpoints: c.etcd.Endpoints()})
	}
	t.Run("another run was charged", func(t *testing.T) {
		c, other := begin(t)
		mustCharge(t, other, c.lead, testCharge("second", 1, "other"))
		if release, entry, err := c.store.Charge(testkit.Within(t), c.lead,
			testCharge("first", 1, "answer")); err != nil || string(release) != "answer" || entry.Seq != 7 {
			t.Fatalf("%q, entry %d, %v", release, entry.Seq, err)
		}
		// The record of the second run is older than the ledger head.
		if _, entry, err := c.store.Charge(testkit.Within(t), c.lead,
			testCharge("second", 2, "answer")); err != nil || entry.Seq != 8 {
			t.Fatalf("entry %d, %v", entry.Seq, err)
		}
		_, dataset, err := spending(c.store, "first")
		if err != nil || len(dataset.Spent) != 1 || dataset.Spent[0].Count != 5*4 {
			t.Errorf("the dataset has spent %v, %v", dataset.Spent, err)
		}
		if _, v := ledgerOf(t, c.store); v.Runs["second"].Releases != 3 || v.Runs["first"].Releases != 2 {
			t.Errorf("releases %+v", v.Runs)
		}
	})
	t.Run("the round was charged", func(t *testing.T) {
		c, other := begin(t)
		mustCharge(t, other, c.lead, testCharge("first", 1, "answer"))
		wantAnswer(t, c.store, c.lead, testCharge("first", 1, "another answer"), "answer")
		wantAnswer(t, c.store, c.lead, testCharge("first", 0, "another answer"), "answer")
		ledgerOf(t, c.store)
	})
	t.Run("the run was closed", func(t *testing.T) {
		for _, here := range []bool{true, false} {
			c, other := begin(t)
			if here {
				other = c.store
			}
			mustClose(t, other, c.lead, "first")
			if _, _, err := c.store.Charge(testkit.Within(t), c.lead, testCharge("first", 1, "answer")); !errors.Is(err,
				ErrRunClosed) {
				t.Errorf("error %v", err)
			}
		}
	})
	t.Run("the budget was used up", func(t *testing.T) {
		c, other := begin(t)
		costly := testCharge("first", 1, "answer")
		costly.Use = votes(12, 4)
		mustCharge(t, other, c.lead, costly)
		costly.Round = 2
		if _, _, err := c.store.Charge(testkit.Within(t), c.lead, costly); !errors.Is(err, privacy.ErrOverBudget) {
			t.Errorf("error %v", err)
		}
	})
	t.Run("somebody else leads, and leads no more", func(t *testing.T) {
		c, other := begin(t)
		lead := leadAs(t, other, "agg") // the same name takes over
		if _, _, err := c.store.Charge(testkit.Within(t), c.lead, testCharge("first", 1, "answer")); !errors.Is(err,
			ErrNotLeader) {
			t.Errorf("error %v", err)
		}
		mustCharge(t, other, lead, testCharge("first", 1, "other"))
		again := leadAs(t, c.store, "agg")
		wantAnswer(t, c.store, again, testCharge("first", 1, "answer"), "other")
		if _, entry, err := c.store.Charge(testkit.Within(t), again,
			testCharge("first", 2, "answer")); err != nil || entry.Fence != again.Fence() {
			t.Errorf("%+v, %v", entry, err)
		}
		ledgerOf(t, c.store)
	})
	t.Run("who waits for the turn may go away", func(t *testing.T) {
		c, _ := begin(t)
		h := c.store.cacheOf("flchain")
		testkit.Must(t, h.lock(testkit.Within(t)))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, _, err := c.store.Charge(ctx, c.lead,
			testCharge("first", 1, "answer")); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
		h.unlock()
		if _, _, err := c.store.Charge(testkit.Within(t), c.lead, testCharge("first", 1, "answer")); err != nil {
			t.Error(err)
		}
	})
}
