package coordinator

import (
	"errors"
	"testing"

	"github.com/conclave-dp/conclave/internal/ledger"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/testkit"
)

func testQuestion(run string, round uint64, digest string) Question {
	return Question{Run: run, Round: round, Digest: digest, Use: votes(200, 4)}
}

func types(entries []ledger.Entry) (of []string) {
	for _, e := range entries {
		of = append(of, e.Type)
	}
	return of
}

// In whatever order questions come, each question that nodes were asked has one charge: its release's or its own.
func TestAskedIsCharged(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	ctx := testkit.Within(t)
	ask := func(round uint64, digest string) {
		t.Helper()
		testkit.Must(t, c.store.Ask(ctx, c.lead, testQuestion("first", round, digest)))
	}
	charge := func(round uint64, digest string) {
		t.Helper()
		paid := testCharge("first", round, "answer")
		paid.Digest = digest
		mustCharge(t, c.store, c.lead, paid)
	}
	want := func(of ...string) {
		t.Helper()
		entries, v := ledgerOf(t, c.store)
		testkit.Same(t, "entries", types(entries), append([]string{"open", "run"}, of...))
		spent := 0
		for _, e := range v.Events {
			spent += int(e.Count)
		}
		released, abandoned := v.Runs["first"].Releases, v.Runs["first"].Abandoned
		if spent != 4*(released+abandoned) {
			t.Errorf("%d votes are spent on %d releases and %d abandoned questions of 4", spent, released, abandoned)
		}
	}
	ask(0, "a")
	ask(0, "a")
	want()
	charge(0, "a")
	ask(0, "a") // late: the round is already charged
	want("release")
	ask(1, "a")
	ask(1, "b")
	want("release", "abandoned")
	ask(1, "a") // each different question is one more answer that nobody paid for
	want("release", "abandoned", "abandoned")
	charge(1, "c") // a selection asks no node
	want("release", "abandoned", "abandoned", "abandoned", "release")
	ask(2, "a")

	// Another leader knows the question, and so does one that verifies everything.
	c.lead = leadAs(t, c.store, "agg")
	testkit.Must(t, c.store.OpenDataset(ctx, c.lead, testDataset))
	ask(2, "a")
	want("release", "abandoned", "abandoned", "abandoned", "release")
	mustClose(t, c.store, c.lead, "first")
	want("release", "abandoned", "abandoned", "abandoned", "release", "abandoned", "close")
	testkit.Must(t, c.store.OpenDataset(ctx, c.lead, testDataset))
	if err := c.store.Ask(ctx, c.lead, testQuestion("first", 2, "a")); !errors.Is(err, ErrRunClosed) {
		t.Errorf("asked of a closed run: %v", err)
	}
}

// A charged round is not asked, also if an earlier one is not charged.
func TestChargedRoundsAreNotAsked(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	mustCharge(t, c.store, c.lead, testCharge("first", 1, "answer"))
	fresh := openStore(t, Config{Endpoints: c.etcd.Endpoints()}) // it has read nothing
	for _, store := range []*Store{c.store, fresh} {
		testkit.Must(t, store.Ask(testkit.Within(t), c.lead, testQuestion("first", 1, "b")))
	}
	_, _, err := c.store.CloseRun(testkit.Within(t), c.lead, "first", "", "")
	testkit.Must(t, err)
	entries, _ := ledgerOf(t, c.store)
	testkit.Same(t, "entries", types(entries), []string{"open", "run", "release", "close"})
}

// A pending question counts as spent for other runs, and for other questions of its own run.
func TestAskedTakesRoom(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	ctx := testkit.Within(t)
	for _, name := range []string{"second", "third"} {
		mustOpen(t, c.store, c.lead, testRun(name))
	}
	dear := func(run, digest string) error {
		q := testQuestion(run, 0, digest)
		q.Use = votes(20, 4)
		return c.store.Ask(ctx, c.lead, q)
	}
	asked := 0
	var last error
	for _, run := range []string{"first", "second", "third"} {
		for _, digest := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
			if last = dear(run, digest); last != nil {
				break
			}
			asked++
		}
	}
	if !errors.Is(last, privacy.ErrOverBudget) || asked < 2 {
		t.Fatalf("%d questions, the last with %v", asked, last)
	}
	entries, v := ledgerOf(t, c.store)
	room, err := c.store.Room(ctx, testDataset.Name, everOpened(t, c.store))
	testkit.Must(t, err)
	var due []privacy.Event
	for _, run := range room.Open {
		ofRun, ofDataset, err := spending(c.store, run.Name)
		testkit.Must(t, err)
		due = ofDataset.Spent
		price, err := privacy.Account(ofRun.Spent, ofRun.Budget.Delta)
		if err != nil || price.Epsilon > ofRun.Budget.Epsilon {
			t.Errorf("run %s: what it was asked comes to %+v, %v", run.Name, price, err)
		}
	}
	var votes int64
	for _, e := range due {
		votes += e.Count
	}
	if votes != int64(4*asked) {
		t.Errorf("%d votes count as spent, %d questions of 4 were asked; the ledger has %d entries and %+v",
			votes, asked, len(entries), v.Events)
	}
	// The run's end charges the pending question, and that always fits.
	for _, run := range []string{"first", "second", "third"} {
		mustClose(t, c.store, c.lead, run)
	}
	if _, v = ledgerOf(t, c.store); v.Events[0].Count != votes {
		t.Errorf("%+v are spent in the end, %d votes were asked", v.Events, votes)
	}
	testkit.Must(t, c.store.OpenDataset(ctx, c.lead, testDataset))
}
