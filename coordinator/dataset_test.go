package coordinator

import (
	"errors"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/ledger"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/testkit"
)

func TestOpenDataset(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	ctx := testkit.Within(t)
	if err := c.store.OpenDataset(ctx, c.lead, testDataset); err != nil {
		t.Errorf("opened again: %v", err)
	}
	before := everything(t, c.store)
	for field, change := range map[string]func(*Dataset){
		"budget epsilon": func(d *Dataset) { d.Budget.Epsilon = 10 },
		"budget delta":   func(d *Dataset) { d.Budget.Delta = 1e-6 },
		"budget filter":  func(d *Dataset) { d.Budget.Filter = privacy.FilterRDP },
		"overlap":        func(d *Dataset) { d.Budget.Overlap = 2 },
		"privacy unit":   func(d *Dataset) { d.Unit = "patient" },
		"schema":         func(d *Dataset) { d.SchemaSHA256 = "another" },
	} {
		d := testDataset
		change(&d)
		var mismatch *MismatchError
		if err := c.store.OpenDataset(ctx, c.lead, d); !errors.As(err, &mismatch) || mismatch.Field != field {
			t.Errorf("another %s: %v", field, err)
		}
	}
	for name, d := range map[string]Dataset{
		"bad name":  {Name: "../x", Budget: testDataset.Budget, Unit: "record", SchemaSHA256: "5"},
		"no unit":   {Name: "x", Budget: testDataset.Budget, SchemaSHA256: "5"},
		"no schema": {Name: "x", Budget: testDataset.Budget, Unit: "record"},
		"no budget": {Name: "x", Unit: "record", SchemaSHA256: "5"},
	} {
		if err := c.store.OpenDataset(ctx, c.lead, d); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	testkit.Same(t, "refusals wrote", before, everything(t, c.store))
	if _, err := c.store.Ledger(ctx, "nowhere"); !errors.Is(err, ErrNoDataset) {
		t.Errorf("ledger of no dataset: %v", err)
	}
}

// A leader that takes over recomputes the ledger before it trusts the totals.
func TestOpenDatasetFindsDamage(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	ctx := testkit.Within(t)
	for round := range uint64(2) {
		mustCharge(t, c.store, c.lead, testCharge("first", round, "answer"))
	}
	s := c.store
	for name, damage := range map[string]struct {
		key    string
		change func(string) string // "" removes the key
	}{
		"entry altered": {s.entryKey("flchain", 3), func(v string) string {
			return strings.Replace(v, `"sigma":200`, `"sigma":900`, 1)
		}},
		"entry removed":      {s.entryKey("flchain", 3), func(string) string { return "" }},
		"last entry removed": {s.entryKey("flchain", 4), func(string) string { return "" }},
		"dataset's total": {s.datasetKey("flchain"), func(v string) string {
			return strings.Replace(v, `"count":8`, `"count":4`, 1)
		}},
		"run's total": {s.runKey("first"), func(v string) string {
			return strings.Replace(v, `"count":8`, `"count":4`, 1)
		}},
		"run removed":      {s.runKey("first"), func(string) string { return "" }},
		"dataset's record": {s.datasetKey("flchain"), func(string) string { return "{" }},
		"run opened for more": {s.runKey("first"), func(v string) string {
			return strings.Replace(v, `"epsilon":1,`, `"epsilon":2,`, 1)
		}},
	} {
		r, err := s.client.Get(ctx, damage.key)
		if err != nil || len(r.Kvs) != 1 {
			t.Fatalf("%s: %v, %v", name, r, err)
		}
		old := string(r.Kvs[0].Value)
		if changed := damage.change(old); changed == old {
			t.Fatalf("%s: nothing to damage in %s", name, old)
		} else if changed == "" {
			_, err = s.client.Delete(ctx, damage.key)
		} else {
			_, err = s.client.Put(ctx, damage.key, changed)
		}
		testkit.Must(t, err)
		if err := s.OpenDataset(ctx, c.lead, testDataset); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v, want ErrCorrupt", name, err)
		}
		testkit.Must(t, second(s.client.Put(ctx, damage.key, old)))
		if err := s.OpenDataset(ctx, c.lead, testDataset); err != nil {
			t.Fatalf("%s, fixed: %v", name, err)
		}
	}
	key := s.releaseKey("first", 0)
	testkit.Must(t, second(s.client.Put(ctx, key, `{"dataset":"flchain","seq":3,"release":"b3RoZXI="}`)))
	if _, _, _, err := s.Release(ctx, "first", 0); !errors.Is(err, ErrCorrupt) {
		t.Errorf("another release: %v, want ErrCorrupt", err)
	}
}

func TestRuns(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	ctx := testkit.Within(t)
	if existing, err := c.store.OpenRun(ctx, c.lead, testRun("first")); err != nil || !existing {
		t.Errorf("opened again: existing %v, %v", existing, err)
	}
	for name, change := range map[string]func(*Run){
		"spec":   func(r *Run) { r.Spec = []byte("another") },
		"budget": func(r *Run) { r.Budget.Epsilon = 2 },
	} {
		r := testRun("first")
		change(&r)
		if _, err := c.store.OpenRun(ctx, c.lead, r); !errors.Is(err, ErrRunExists) ||
			!strings.Contains(err.Error(), name) {
			t.Errorf("another %s: %v", name, err)
		}
	}
	elsewhere := testRun("second")
	elsewhere.Dataset = "nowhere"
	if _, err := c.store.OpenRun(ctx, c.lead, elsewhere); !errors.Is(err, ErrNoDataset) {
		t.Errorf("no dataset: %v", err)
	}
	free := testRun("second")
	free.Budget = privacy.Budget{}
	if _, err := c.store.OpenRun(ctx, c.lead, free); err == nil {
		t.Error("a run without a budget was opened")
	}
	if _, err := c.store.Run(ctx, "second"); !errors.Is(err, ErrNoRun) {
		t.Errorf("no run: %v", err)
	}
	if _, _, err := c.store.CloseRun(ctx, c.lead, "second", "", ""); !errors.Is(err, ErrNoRun) {
		t.Errorf("close no run: %v", err)
	}

	_, entry, err := c.store.Charge(ctx, c.lead, testCharge("first", 0, "answer"))
	testkit.Must(t, err)
	head, _, err := c.store.CloseRun(ctx, c.lead, "first", "", "")
	testkit.Must(t, err)
	mustOpen(t, c.store, c.lead, testRun("second"))
	before := everything(t, c.store)
	if again, _, err := c.store.CloseRun(ctx, c.lead, "first", "", ""); err != nil || again != head {
		t.Errorf("closed again: %s, %v; want %s", again, err, head)
	}
	if _, _, err := c.store.Charge(ctx, c.lead, testCharge("first", 1, "more")); !errors.Is(err, ErrRunClosed) {
		t.Errorf("charge a closed run: %v", err)
	}
	wantAnswer(t, c.store, c.lead, testCharge("first", 0, "more"), "answer")
	testkit.Same(t, "a closed run wrote", before, everything(t, c.store))
	got, err := c.store.Run(ctx, "first")
	testkit.Must(t, err)
	want := testRun("first")
	want.Facts = ledger.Facts{} // they are in the ledger
	want.Closed, want.Head, want.Releases = true, head, 1
	want.Spent, want.EpsilonSpent = entry.Events, entry.EpsilonSpent
	want.Used = append([]int64{4}, make([]int64, len(testSigmas)-1)...)
	entries, v := ledgerOf(t, c.store)
	if !strings.HasPrefix(got.Opened, entries[1].Day) || entries[1].Day == "" || entries[2].Day != "" {
		t.Errorf("opened at %q; the days of the run and of its release are %q and %q", got.Opened, entries[1].Day,
			entries[2].Day)
	}
	want.Opened = got.Opened
	testkit.Same(t, "run", want, got)
	if !v.Runs["first"].Closed || v.Runs["second"].Closed || entries[3].Hash != head {
		t.Errorf("ledger: %+v", v.Runs)
	}
}
