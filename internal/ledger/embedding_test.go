package ledger

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/privacy"
)

// embeddingEntry is a release of an embedding of 300 numbers in a round.
func embeddingEntry(round uint64, events ...privacy.Event) Entry {
	return Entry{Type: EntryRelease, Round: &round, Purpose: "embedding", Events: events,
		Queries: 300, Answered: 300, ReleaseSHA256: strings.Repeat("0a", 32)}
}

// pay adds a release with what the run has spent after it.
func (w *writer) pay(run string, e Entry) {
	w.t.Helper()
	w.spent[run] = privacy.Merge(append(w.spent[run], e.Events...))
	e.Run, e.EpsilonSpent = run, w.epsilon(run)
	w.add(e)
}

var embedded = privacy.Event{Kind: privacy.Gaussian, Sigma: 6, Sensitivity: 1, Count: 1}

// An embedding is one noisy sum, whatever the run asks for after it.
func TestVerifyAnEmbeddingsLedger(t *testing.T) {
	for name, c := range map[string]struct {
		events []privacy.Event // after the embedding
		plan   privacy.Plan
	}{
		"alone":        {},
		"before votes": {events: []privacy.Event{labels, labels}},
		"in a plan": {
			events: []privacy.Event{sampled(0.02, 20, 1), sampled(0.02, 20, 1)},
			plan:   privacy.Plan{embedded, sampled(0.02, 20, 5)},
		},
	} {
		budget := privacy.Budget{Epsilon: 2, Delta: 1e-5}
		if c.plan != nil {
			budget.Filter = privacy.FilterPLD
		}
		w := newWriter(t, budget)
		if c.plan != nil {
			w.openPlanned("one", budget, c.plan)
		} else {
			w.open("one", budget)
		}
		w.pay("one", embeddingEntry(0, embedded))
		for i, event := range c.events {
			w.release("one", uint64(i+1), event)
		}
		w.close("one")
		for check, of := range map[string]func([]byte) (Verification, error){"verify": verify, "audit": verifyStrict} {
			v, err := of(w.bytes())
			if err != nil {
				t.Errorf("%s, %s: %v", name, check, err)
				continue
			}
			run := v.Runs["one"]
			if !run.Closed || run.Releases != 1+len(c.events) {
				t.Errorf("%s, %s: run %+v", name, check, run)
			}
			if c.plan == nil {
				closeTo(t, name, run.Claim.Epsilon, mustAccount(t, w.spent["one"], 1e-5).Epsilon, 1e-12)
			}
		}
	}
}

// Entries of this purpose that no aggregator writes, though hashes and budgets hold.
func TestAuditFindsWrongEmbeddings(t *testing.T) {
	for _, c := range []struct {
		name, message string // no message: nothing is wrong
		change        func(e *Entry)
	}{
		{"as it is written", "", func(*Entry) {}},
		{"of one number", "", func(e *Entry) { e.Queries, e.Answered = 1, 1 }},
		{"of many", "", func(e *Entry) { e.Queries, e.Answered = 1<<17, 1<<17 }},
		{"votes", "a gnmax event does not belong", func(e *Entry) { e.Events = []privacy.Event{labels}; e.Queries, e.Answered = 32, 32 }},
		{"confident votes", "a confident-gnmax event does not belong", func(e *Entry) { e.Events = []privacy.Event{confident}; e.Queries, e.Answered = 32, 30 }},
		{"class counts", "a laplace event does not belong", func(e *Entry) { e.Events = []privacy.Event{shares}; e.Queries, e.Answered = 1, 1 }},
		{"a sum of a sample", "a subsampled-gaussian event does not belong", func(e *Entry) { e.Events = []privacy.Event{sampled(0.02, 20, 1)} }},
		{"two events", "in 2 events", func(e *Entry) {
			e.Events = []privacy.Event{embedded, {Kind: privacy.Gaussian, Sigma: 7, Sensitivity: 1, Count: 1}}
		}},
		{"an event of votes beside it", "in 2 events", func(e *Entry) { e.Events = []privacy.Event{embedded, labels} }},
		{"two sums", "300 of 300 entries of 2 noisy sums", func(e *Entry) {
			e.Events = []privacy.Event{{Kind: privacy.Gaussian, Sigma: 6, Sensitivity: 1, Count: 2}}
		}},
		{"a number that was not answered", "299 of 300 entries of 1 noisy sums", func(e *Entry) { e.Answered = 299 }},
		{"nothing answered", "0 of 300 entries", func(e *Entry) { e.Answered = 0 }},
		{"of no number", "0 of 0 entries", func(e *Entry) { e.Queries, e.Answered = 0, 0 }},
		{"another word for it", `purpose is "embeddings"`, func(e *Entry) { e.Purpose = "embeddings" }},
		{"as labels", "a gaussian event does not belong", func(e *Entry) { e.Purpose = "labels" }},
		{"as class counts", "a gaussian event does not belong", func(e *Entry) { e.Purpose = "class-share" }},
		{"as a discriminator's", "a gaussian event does not belong", func(e *Entry) { e.Purpose = "discriminator" }},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWriter(t, privacy.Budget{Epsilon: 3, Delta: 1e-5})
			w.open("one", privacy.Budget{Epsilon: 3, Delta: 1e-5})
			e := embeddingEntry(0, embedded)
			c.change(&e)
			w.pay("one", e)
			w.close("one")
			if _, err := verify(w.bytes()); err != nil {
				t.Fatalf("hashes or budgets are wrong: %v", err)
			}
			_, err := verifyStrict(w.bytes())
			var at *LineError
			if c.message == "" && err != nil || c.message != "" &&
				(!errors.As(err, &at) || at.Line != 3 || !strings.Contains(err.Error(), c.message)) {
				t.Errorf("error is %v, want %q in line 3", err, c.message)
			}
		})
	}
}

// A plan with an embedding takes one, of its noise and no other.
func TestVerifyRefusesEmbeddingsBesideThePlan(t *testing.T) {
	plan := privacy.Plan{embedded, sampled(0.02, 20, 5)}
	budget := privacy.Budget{Epsilon: 2, Delta: 1e-5, Filter: privacy.FilterPLD}
	other := embedded
	other.Sigma = math.Nextafter(embedded.Sigma, 7)
	for name, c := range map[string]struct {
		plan    privacy.Plan
		events  []privacy.Event
		message string
	}{
		"a second one":    {plan, []privacy.Event{embedded, embedded}, "the plan is used up"},
		"of other noise":  {plan, []privacy.Event{other}, "has no"},
		"not in the plan": {plan[1:], []privacy.Event{embedded}, "has no"},
	} {
		w := newWriter(t, budget)
		w.openPlanned("one", budget, c.plan)
		for i, event := range c.events {
			w.pay("one", embeddingEntry(uint64(i), event))
		}
		var at *LineError
		if _, err := verify(w.bytes()); !errors.As(err, &at) || at.Line != len(w.entries) || !strings.Contains(err.Error(), c.message) {
			t.Errorf("%s: %v, want %q in line %d", name, err, c.message, len(w.entries))
		}
	}
}
