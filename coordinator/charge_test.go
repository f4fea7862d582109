package coordinator

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/testkit"
)

func TestChargeOnce(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	ctx := testkit.Within(t)
	release, entry, err := c.store.Charge(ctx, c.lead, testCharge("first", 0, "answer"))
	testkit.Must(t, err)
	sum := sha256.Sum256([]byte("answer"))
	claim, err := privacy.Account(costOf(testCharge("first", 0, "")), 1e-5)
	testkit.Must(t, err)
	if string(release) != "answer" || entry.ReleaseSHA256 != hex.EncodeToString(sum[:]) ||
		entry.Seq != 3 || entry.Fence != c.lead.Fence() || entry.EpsilonSpent != claim.Epsilon {
		t.Errorf("release %q, entry %+v", release, entry)
	}

	// The same round again with a different release: the stored one is returned.
	again, second, err := c.store.Charge(ctx, c.lead, testCharge("first", 0, "another answer"))
	if err != nil || string(again) != "answer" {
		t.Errorf("asked again: %q, %v", again, err)
	}
	testkit.Same(t, "entry of the second asking", entry, second)
	stored, third, found, err := c.store.Release(ctx, "first", 0)
	if err != nil || !found || string(stored) != "answer" {
		t.Errorf("stored: %q, %v, %v", stored, found, err)
	}
	testkit.Same(t, "stored entry", entry, third)
	if _, _, found, err := c.store.Release(ctx, "first", 1); found || err != nil {
		t.Errorf("round 1: found %v, %v", found, err)
	}

	run, dataset, err := spending(c.store, "first")
	testkit.Must(t, err)
	for _, spent := range [][]privacy.Event{run.Spent, dataset.Spent} {
		testkit.Same(t, "spent", costOf(testCharge("", 0, "")), spent)
	}
	if entries, _ := ledgerOf(t, c.store); len(entries) != 3 {
		t.Errorf("%d entries, want open, run, release", len(entries))
	}
}

// Two stores, like two processes, charge the same rounds under one leadership at the same time, each with its own
// release.
func TestConcurrentCharges(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	ctx := testkit.Within(t)
	mustOpen(t, c.store, c.lead, testRun("second"))
	stores := []*Store{c.store, openStore(t, Config{Endpoints: c.etcd.Endpoints()})}
	const rounds, askers = 6, 4

	type key struct {
		run   string
		round uint64
	}
	var mu sync.Mutex
	answers := make(map[key]map[string]bool)
	var wg sync.WaitGroup
	for asker := range askers {
		for _, run := range []string{"first", "second"} {
			for round := range uint64(rounds) {
				wg.Go(func() {
					mine := fmt.Sprintf("%s/%d by %d", run, round, asker)
					release, _, err := stores[asker%2].Charge(ctx, c.lead, testCharge(run, round, mine))
					if err != nil {
						t.Errorf("%s: %v", mine, err)
						return
					}
					mu.Lock()
					defer mu.Unlock()
					k := key{run, round}
					if answers[k] == nil {
						answers[k] = make(map[string]bool)
					}
					answers[k][string(release)] = true
				})
			}
		}
	}
	wg.Wait()
	if len(answers) != 2*rounds {
		t.Errorf("%d rounds answered", len(answers))
	}
	for k, got := range answers {
		if len(got) != 1 {
			t.Errorf("%v got different answers: %v", k, got)
		}
		stored, _, found, err := c.store.Release(ctx, k.run, k.round)
		if err != nil || !found || !got[string(stored)] {
			t.Errorf("%v: stored %q, %v", k, stored, err)
		}
	}
	entries, v := ledgerOf(t, c.store)
	if want := 1 + 2 + 2*rounds; len(entries) != want {
		t.Errorf("%d entries, want %d", len(entries), want)
	}
	for name, run := range v.Runs {
		if run.Releases != rounds {
			t.Errorf("run %s: %d releases", name, run.Releases)
		}
	}
}

func TestOverBudgetWritesNothing(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	ctx := testkit.Within(t)
	refused := func(charge Charge, budget privacy.Budget) {
		t.Helper()
		before := everything(t, c.store)
		_, _, err := c.store.Charge(ctx, c.lead, charge)
		var over *privacy.OverBudgetError
		if !errors.As(err, &over) || over.Budget != budget {
			t.Errorf("got %v, want a refusal by %+v", err, budget)
		}
		testkit.Same(t, "a refusal wrote", before, everything(t, c.store))
	}
	charge := testCharge("first", 0, "answer")
	charge.Use = votes(1, 4)
	refused(charge, testRun("first").Budget)

	// Each run charges until all runs together exceed the dataset's budget.
	charge.Use = votes(6, 1)
	// All are opened while each still has room.
	for i := range 30 {
		mustOpen(t, c.store, c.lead, testRun(fmt.Sprintf("run-%d", i)))
	}
	for i := range 30 {
		charge.Run = fmt.Sprintf("run-%d", i)
		_, dataset, err := spending(c.store, charge.Run)
		testkit.Must(t, err)
		if _, err := dataset.Admit(costOf(charge)); err != nil {
			refused(charge, testDataset.Budget)
			before := everything(t, c.store)
			var over *privacy.OverBudgetError
			if _, err := c.store.OpenRun(ctx, c.lead, testRun("late")); !errors.As(err, &over) ||
				over.Budget != testDataset.Budget {
				t.Errorf("a run that could not end was opened: %v", err)
			}
			testkit.Same(t, "a refusal wrote", before, everything(t, c.store))
			ledgerOf(t, c.store)
			return
		}
		if _, _, err := c.store.Charge(ctx, c.lead, charge); err != nil {
			t.Fatalf("run %d: %v", i, err)
		}
	}
	t.Error("the dataset's budget never refused")
}

// everything returns all keys with their revisions.
func everything(t *testing.T, s *Store) map[string]int64 {
	t.Helper()
	r, err := s.client.Get(testkit.Within(t), s.config.Prefix, clientv3.WithPrefix())
	testkit.Must(t, err)
	all := make(map[string]int64)
	for _, kv := range r.Kvs {
		all[string(kv.Key)] = kv.ModRevision
	}
	return all
}

func TestChargeRefuses(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	ctx := testkit.Within(t)
	change := func(f func(*Charge)) Charge {
		charge := testCharge("first", 0, "answer")
		f(&charge)
		return charge
	}
	before := everything(t, c.store)
	for _, tc := range []struct {
		name   string
		charge Charge
		want   error // nil accepts any
	}{
		{"no such run", change(func(c *Charge) { c.Run = "nobody" }), ErrNoRun},
		{"bad name", change(func(c *Charge) { c.Run = "a/b" }), ErrBadName},
		{"empty release", change(func(c *Charge) { c.Release = nil }), nil},
		{"too large", change(func(c *Charge) { c.Release = make([]byte, MaxRelease+1) }), ErrTooLarge},
		{"free", change(func(c *Charge) { c.Use.Queries, c.Use.Answered = 0, 0 }), nil},
		{"given back", change(func(c *Charge) { c.Use.Queries, c.Use.Answered = -4, -4 }), nil},
		{"beyond the plan", change(func(c *Charge) { c.Use.Planned = len(testSigmas) }), privacy.ErrOverBudget},
		{"before the plan", change(func(c *Charge) { c.Use.Planned = -1 }), privacy.ErrOverBudget},
		{"a negative length", change(func(c *Charge) { c.Entries = -1 }), nil},
		{"more answers than queries", change(func(c *Charge) { c.Use.Answered = 5 }), nil},
	} {
		_, _, err := c.store.Charge(ctx, c.lead, tc.charge)
		if err == nil || tc.want != nil && !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, err, tc.want)
		}
	}
	testkit.Same(t, "refusals wrote", before, everything(t, c.store))
	largest := testCharge("first", 0, "")
	largest.Release = bytes.Repeat([]byte{0xff}, MaxRelease)
	if _, _, err := c.store.Charge(ctx, c.lead, largest); err != nil {
		t.Errorf("the largest release: %v", err)
	}
}

// faultyKV lets a test choose what happens around commits.
type faultyKV struct {
	clientv3.KV
	around func(commit func() (*clientv3.TxnResponse, error)) (*clientv3.TxnResponse, error)
}

func (f *faultyKV) Txn(ctx context.Context) clientv3.Txn {
	return &faultyTxn{Txn: f.KV.Txn(ctx), kv: f, ctx: ctx}
}

type faultyTxn struct {
	clientv3.Txn
	kv     *faultyKV
	ctx    context.Context
	writes bool
}

func (x *faultyTxn) If(c ...clientv3.Cmp) clientv3.Txn {
	// A commit may arrive after its caller's deadline.
	x.Txn, x.writes = x.kv.KV.Txn(context.WithoutCancel(x.ctx)).If(c...), true
	return x
}
func (x *faultyTxn) Then(ops ...clientv3.Op) clientv3.Txn { x.Txn = x.Txn.Then(ops...); return x }
func (x *faultyTxn) Else(ops ...clientv3.Op) clientv3.Txn { x.Txn = x.Txn.Else(ops...); return x }
func (x *faultyTxn) Commit() (*clientv3.TxnResponse, error) {
	if !x.writes {
		return x.Txn.Commit()
	}
	return x.kv.around(x.Txn.Commit)
}

var errLost = status.Error(codes.Unavailable, "connection lost")

func TestAmbiguousCommit(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		failure error
		commits bool // before the answer is lost
	}{
		{"lost after the commit", errLost, true},
		{"lost before the commit", errLost, false},
		{"deadline after the commit", context.DeadlineExceeded, true},
		{"deadline before the commit", context.DeadlineExceeded, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := newCluster(t)
			calls := 0
			c.store.client.KV = &faultyKV{c.store.client.KV,
				func(commit func() (*clientv3.TxnResponse, error)) (*clientv3.TxnResponse, error) {
					if calls++; calls > 1 {
						return commit()
					}
					if tc.commits {
						if _, err := commit(); err != nil {
							t.Error(err)
						}
					}
					return nil, tc.failure
				}}
			release, entry, err := c.store.Charge(testkit.Within(t), c.lead, testCharge("first", 0, "answer"))
			if err != nil || string(release) != "answer" || entry.Seq != 3 {
				t.Fatalf("%q, %+v, %v", release, entry, err)
			}
			if want := map[bool]int{true: 1, false: 2}[tc.commits]; calls != want {
				t.Errorf("%d commits, want %d", calls, want)
			}
			if _, v := ledgerOf(t, c.store); v.Runs["first"].Releases != 1 {
				t.Errorf("%d releases", v.Runs["first"].Releases)
			}
		})
	}
}

// A commit that arrives after its caller gave up must become neither a second release nor a second charge.
func TestLateCommit(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	other := openStore(t, Config{Endpoints: c.etcd.Endpoints()})
	var late func() (*clientv3.TxnResponse, error)
	c.store.client.KV = &faultyKV{c.store.client.KV,
		func(commit func() (*clientv3.TxnResponse, error)) (*clientv3.TxnResponse, error) {
			late = commit
			return nil, errLost
		}}
	_, _, err := c.store.Charge(testkit.Within(t), c.lead, testCharge("first", 0, "first answer"))
	if !errors.Is(err, ErrUnavailable) {
		t.Fatalf("got %v, want ErrUnavailable", err)
	}
	release, _, err := other.Charge(testkit.Within(t), c.lead, testCharge("first", 0, "second answer"))
	if err != nil || string(release) != "second answer" {
		t.Fatalf("%q, %v", release, err)
	}
	if r, err := late(); err != nil || r.Succeeded {
		t.Errorf("the late commit: %+v, %v; want a failed comparison", r, err)
	}
	stored, _, _, err := other.Release(testkit.Within(t), "first", 0)
	if err != nil || string(stored) != "second answer" {
		t.Errorf("stored %q, %v", stored, err)
	}
	if _, v := ledgerOf(t, other); v.Runs["first"].Releases != 1 {
		t.Errorf("%d releases", v.Runs["first"].Releases)
	}
}

// Another writer charges between read and commit. The totals behind the budget check are stale, so the charge is
// decided again.
func TestConflictIsDecidedAnew(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	other := openStore(t, Config{Endpoints: c.etcd.Endpoints()})
	big := votes(6, 1)
	var once atomic.Bool
	c.store.client.KV = &faultyKV{c.store.client.KV,
		func(commit func() (*clientv3.TxnResponse, error)) (*clientv3.TxnResponse, error) {
			if once.CompareAndSwap(false, true) {
				charge := testCharge("first", 0, "other")
				charge.Use = big
				if _, _, err := other.Charge(testkit.Within(t), c.lead, charge); err != nil {
					t.Error(err)
				}
			}
			return commit()
		}}
	charge := testCharge("first", 1, "mine")
	charge.Use = big
	// Each fits the run's budget alone, but both together do not.
	_, _, err := c.store.Charge(testkit.Within(t), c.lead, charge)
	if !errors.Is(err, privacy.ErrOverBudget) {
		t.Errorf("got %v, want ErrOverBudget", err)
	}
	if _, v := ledgerOf(t, c.store); v.Runs["first"].Releases != 1 {
		t.Errorf("%d releases", v.Runs["first"].Releases)
	}
}
