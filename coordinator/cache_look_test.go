package coordinator

import (
	"cmp"
	"errors"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// seen is the state that a round starts from.
type seen struct {
	Run      Run
	OfRun    []privacy.Event
	OfAll    []privacy.Event
	Released bool
}

func look(t *testing.T, s *Store, lead *Leadership, run string, round uint64) seen {
	t.Helper()
	standing, err := s.Round(testkit.Within(t), lead, run, round)
	testkit.Must(t, err)
	now, err := s.Snapshot(testkit.Within(t), lead, run)
	testkit.Must(t, err)
	ofRun, ofDataset, err := now.Spending(0, "")
	testkit.Must(t, err)
	order := func(a, b privacy.Event) int { return cmp.Compare(a.Sigma, b.Sigma) }
	return seen{standing.Run, slices.SortedFunc(slices.Values(ofRun.Spent), order),
		slices.SortedFunc(slices.Values(ofDataset.Spent), order), standing.Found}
}

// A round starts from the state in etcd, whatever was written before, and reads it only if the last charge did not
// cache it.
func TestWhoLooksSeesWhatEtcdHas(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	store, requests := counting(t, c)
	mustOpen(t, store, c.lead, testRun("second"))
	charge := func(run string, round uint64) func() error {
		return func() error {
			_, _, err := store.Charge(testkit.Within(t), c.lead, testCharge(run, round, "answer"))
			return err
		}
	}
	for _, step := range []struct {
		name  string
		do    func() error
		run   string
		round uint64
		reads int64 // 0 if everything is cached
	}{
		{"nothing is known", func() error { return nil }, "first", 0, 3}, // nor its dataset
		{"charged", charge("first", 0), "first", 1, 0},
		{"a round that is released", func() error { return nil }, "first", 0, 2}, // read with its entry
		{"another run", func() error { return nil }, "second", 0, 3},
		{"another run charged", charge("second", 0), "second", 1, 0},
		{"the first one is known as well", func() error { return nil }, "first", 1, 0},
		{"a run opened", func() error {
			_,
				err := store.OpenRun(testkit.Within(t), c.lead, testRun("third"))
			return err
		}, "first", 1, 2},
		{"charged again", charge("first", 1), "first", 2, 0},
		{"the second is no longer known", func() error { return nil }, "second", 1, 2},
		{"a charge that was refused", func() error {
			costly := testCharge("second", 1, "answer")
			costly.Use = votes(.1, 9)
			if _, _, err := store.Charge(testkit.Within(t), c.lead, costly); !errors.Is(err, privacy.ErrOverBudget) {
				t.Errorf("error %v", err)
			}
			return nil
		}, "first", 2, 0},
		{"a run closed", func() error {
			_, _, err := store.CloseRun(testkit.Within(t), c.lead, "second", "", "")
			return err
		},
			"first", 2, 2},
		{"the closed run", charge("first", 2), "second", 1, 2},
		{"known", func() error { return nil }, "first", 3, 0},
	} {
		if err := step.do(); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		before := requests.Load()
		got := look(t, store, c.lead, step.run, step.round)
		reads := requests.Load() - before
		if want := look(t, c.store, nil, step.run, step.round); !gocmp.Equal(got, want) {
			t.Errorf("%s: %s", step.name, gocmp.Diff(want, got))
		}
		if reads != step.reads {
			t.Errorf("%s: %d reads, want %d", step.name, reads, step.reads)
		}
	}
}

// A store that no longer leads, or leads again, must read.
func TestWhoLooksMustLead(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	store, requests := counting(t, c)
	lead := leadAs(t, store, "agg")
	mustCharge(t, store, lead, testCharge("first", 0, "answer"))
	reads := func(lead *Leadership) int64 {
		before := requests.Load()
		look(t, store, lead, "first", 1)
		return requests.Load() - before
	}
	if n := reads(lead); n != 0 {
		t.Errorf("%d reads by who leads", n)
	}
	again := leadAs(t, store, "agg") // the same name takes over
	testkit.Receive(t, lead.Context().Done())
	if n := reads(lead); n != 2 {
		t.Errorf("%d reads by who leads no more", n)
	}
	if n := reads(again); n != 2 {
		t.Errorf("%d reads by who leads anew", n)
	}
	if n := reads(nil); n != 2 {
		t.Errorf("%d reads by nobody", n)
	}
}
