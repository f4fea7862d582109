package ledger

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/privacy"
)

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
			plan:   planned(embedded, sampled(0.02, 20, 5)),
		},
	} {
		budget := privacy.Budget{Epsilon: 2, Delta: 1e-5}
		w := newWriter(t, budget)
		if c.plan != nil {
			budget.Filter = privacy.FilterPLD
			w = newWriter(t, budget)
			w.openPlanned("one", budget, c.plan)
		} else {
			w.open("one", budget)
		}
		for i, event := range append([]privacy.Event{embedded}, c.events...) {
			w.release("one", uint64(i), event)
		}
		w.close("one")
		for check, of := range map[string]func([]byte) (Verification, error){"verify": verify, "strict": verifyStrict} {
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
				closeTo(t, name, run.Price.Epsilon, mustAccount(t, w.spent["one"], 1e-5).Epsilon, 1e-12)
			}
		}
	}
}

func TestVerifyRefusesEmbeddingsBesideThePlan(t *testing.T) {
	plan := planned(embedded, sampled(0.02, 20, 5))
	budget := privacy.Budget{Epsilon: 2, Delta: 1e-5, Filter: privacy.FilterPLD}
	other := embedded
	other.Sigma = math.Nextafter(embedded.Sigma, 7)
	for name, c := range map[string]struct {
		plan    privacy.Plan
		events  []privacy.Event
		message string
	}{
		"a second one":    {plan, []privacy.Event{embedded, embedded}, "the plan is used up"},
		"of other noise":  {plan, []privacy.Event{other}, "do not match"},
		"not in the plan": {plan[1:], []privacy.Event{embedded}, "do not match"},
	} {
		w := newWriter(t, budget)
		w.openPlanned("one", budget, c.plan)
		for i, event := range c.events {
			w.release("one", uint64(i), event)
		}
		var at *LineError
		if _, err := verify(w.bytes()); !errors.As(err, &at) || at.Line != len(w.entries) ||
			!strings.Contains(err.Error(), c.message) {
			t.Errorf("%s: %v, want %q in line %d", name, err, c.message, len(w.entries))
		}
	}
}
