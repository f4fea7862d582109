package coordinator

import (
	"errors"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/testkit"
)

// A ledger has only its own entries: no later ones, and none of another ledger.
func TestCheckHead(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	end := func() LedgerHead {
		t.Helper()
		now, err := c.store.Snapshot(testkit.Within(t), c.lead, "first")
		testkit.Must(t, err)
		return now.Head()
	}
	if m := end(); m.Seq != 2 { // for opening the dataset and its run
		t.Errorf("before anything was charged the ledger ends with %v", m)
	}
	for round := range uint64(3) {
		_, entry, err := c.store.Charge(testkit.Within(t), c.lead, testCharge("first", round, "answer"))
		testkit.Must(t, err)
		if m := end(); m != (LedgerHead{entry.Seq, entry.Hash}) {
			t.Errorf("after entry %d the ledger ends with %v", entry.Seq, m)
		}
	}
	entries, err := c.store.Ledger(testkit.Within(t), "flchain")
	testkit.Must(t, err)
	last := entries[len(entries)-1]
	for _, e := range entries {
		got, err := c.store.CheckHead(testkit.Within(t), "flchain", LedgerHead{e.Seq, e.Hash})
		if err != nil || got != (LedgerHead{last.Seq, last.Hash}) {
			t.Errorf("entry %d: last %+v, %v", e.Seq, got, err)
		}
	}
	if got, err := c.store.CheckHead(testkit.Within(t), "flchain", LedgerHead{}); err != nil || got.Seq != last.Seq {
		t.Errorf("nothing seen: last %+v, %v", got, err)
	}
	for name, seen := range map[string]LedgerHead{
		"later":           {last.Seq + 1, last.Hash},
		"another's":       {last.Seq, entries[0].Hash},
		"without a hash":  {Seq: last.Seq},
		"of great number": {1 << 63, last.Hash},
	} {
		_, err := c.store.CheckHead(testkit.Within(t), "flchain", seen)
		var back *RollbackError
		if !errors.Is(err, ErrRollback) || !errors.As(err, &back) || back.Seen != seen ||
			back.Last != (LedgerHead{last.Seq, last.Hash}) {
			t.Errorf("%s: %v", name, err)
		} else if !strings.Contains(err.Error(), `"flchain"`) ||
			!strings.Contains(err.Error(), "restore a newer backup") {
			t.Errorf("%s: %q does not say what, and what to do", name, err)
		}
	}
	if _, err := c.store.CheckHead(testkit.Within(t), "nowhere", LedgerHead{}); !errors.Is(err, ErrNoDataset) {
		t.Errorf("of no dataset: %v", err)
	}
	if _, err := c.store.CheckHead(testkit.Within(t), "a/b", LedgerHead{}); !errors.Is(err, ErrBadName) {
		t.Errorf("of no name: %v", err)
	}
}

// etcd is restored while a leader leads, within its lease. Everything that the leader cached exists again, but
// nothing is charged, opened or closed on top of it.
func TestAnEtcdThatIsSetBackUnderItsLeader(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	var old [][2]string
	remember := func() {
		kvs, err := c.store.list(testkit.Within(t), "remember", c.store.config.Prefix)
		testkit.Must(t, err)
		for _, kv := range kvs {
			old = append(old, [2]string{string(kv.Key), string(kv.Value)})
		}
	}
	charge := func(round uint64) error {
		_, _, err := c.store.Charge(testkit.Within(t), c.lead, testCharge("first", round, "answer"))
		return err
	}
	for round := range uint64(2) {
		testkit.Must(t, charge(round))
	}
	remember()
	for round := uint64(2); round < 5; round++ {
		testkit.Must(t, charge(round))
	}
	for _, kv := range old {
		testkit.Must(t, second(c.store.client.Put(testkit.Within(t), kv[0], kv[1])))
	}
	for round := uint64(2); round < 5; round++ {
		testkit.Must(t, second(c.store.client.Delete(testkit.Within(t), c.store.releaseKey("first", round))))
	}
	for name, do := range map[string]func() error{
		"charge": func() error { return charge(2) },
		"a new run": func() error {
			_,
				err := c.store.OpenRun(testkit.Within(t), c.lead, testRun("second"))
			return err
		},
		"close": func() error { _, _, err := c.store.CloseRun(testkit.Within(t), c.lead, "first", "", ""); return err },
		"look":  func() error { _, err := c.store.CheckHead(testkit.Within(t), "flchain", LedgerHead{}); return err },
	} {
		if err := do(); !errors.Is(err, ErrRollback) {
			t.Errorf("%s: %v, want that the ledger went back", name, err)
		}
	}
	// A new leader knows no later entry and continues; this is why nodes remember heads.
	other := openStore(t, Config{Endpoints: c.etcd.Endpoints()})
	if _, _, err := other.Charge(testkit.Within(t), c.lead, testCharge("first", 2, "answer")); err != nil {
		t.Errorf("by a process that knows of nothing: %v", err)
	}
}
