package ledger

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// abandon adds the entry of an abandoned question.
func (w *writer) abandon(run string, round uint64, event privacy.Event) {
	w.t.Helper()
	e := releaseOf(unlimited(), round, event)
	e.Type, e.Answered, e.ReleaseSHA256 = EntryAbandoned, e.Queries, ""
	w.pay(run, e)
}

// An abandoned question counts as spent, but is no release.
func TestVerifyAbandonedQuestions(t *testing.T) {
	worst := confident
	worst.Answered = worst.Asked
	w := newWriter(t, privacy.Budget{Epsilon: 3, Delta: 1e-5})
	w.open("one", privacy.Budget{Epsilon: 1, Delta: 1e-5})
	w.abandon("one", 0, shares)
	w.release("one", 0, shares)
	w.abandon("one", 1, worst)
	w.abandon("one", 1, worst)
	w.close("one")
	v, err := verifyStrict(w.bytes())
	testkit.Must(t, err)
	run := v.Runs["one"]
	if run.Releases != 1 || run.Abandoned != 3 || run.Queries != 1 || run.Answered != 1 {
		t.Errorf("run %+v", run)
	}
	twice, threefold := shares, worst
	twice.Count, threefold.Asked, threefold.Answered = 2, 64, 64
	if want := []privacy.Event{twice, threefold}; !slices.Equal(run.Events, want) || !slices.Equal(v.Events, want) {
		t.Errorf("spent %+v, want %+v", run.Events, want)
	}
}

func TestVerifyRefusesWrongAbandonedQuestions(t *testing.T) {
	for name, c := range map[string]struct {
		write   func(w *writer)
		message string
	}{
		"of a round that was released": {func(w *writer) {
			w.release("one", 0, shares)
			w.abandon("one", 0, shares)
		}, "already released"},
		"of a round that is not due": {func(w *writer) { w.abandon("one", 1, shares) }, "without gaps"},
		"beyond the budget": {func(w *writer) {
			for range 3 {
				w.abandon("one", 0, dear)
			}
		}, "over budget"},
		"after the end": {func(w *writer) {
			w.close("one")
			w.abandon("one", 0, shares)
		}, "already closed"},
	} {
		w := newWriter(t, privacy.Budget{Epsilon: 3, Delta: 1e-5})
		w.open("one", privacy.Budget{Epsilon: 3, Delta: 1e-5})
		c.write(w)
		var at *LineError
		if _, err := verifyStrict(w.bytes()); !errors.As(err, &at) || !strings.Contains(err.Error(), c.message) {
			t.Errorf("%s: %v, want %q", name, err, c.message)
		}
	}
	e := releaseOf(unlimited(), 0, confident)
	e.Type, e.Dataset, e.Run, e.ReleaseSHA256 = EntryAbandoned, "flchain", "one", ""
	for name, change := range map[string]func(*Entry){
		"answered in part": func(*Entry) {},
		"with entries":     func(e *Entry) { e.Answered, e.Entries = e.Queries, 1 },
		"with a release":   func(e *Entry) { e.Answered, e.ReleaseSHA256 = e.Queries, strings.Repeat("0a", 32) },
		"with a day":       func(e *Entry) { e.Answered, e.Day = e.Queries, "2026-01-31" },
	} {
		bad := e
		change(&bad)
		if err := bad.Seal(nil); err == nil {
			t.Errorf("%s: sealed %+v", name, bad)
		}
	}
}
