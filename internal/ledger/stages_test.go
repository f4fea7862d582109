package ledger

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/privacy"
)

var (
	selected = privacy.Event{Kind: privacy.Exponential, Epsilon: 0.02, Count: 1}
	fitted   = privacy.Event{Kind: privacy.Gaussian, Sigma: 8, Sensitivity: 1, Count: 1}
	pureFit  = privacy.Event{Kind: privacy.Laplace, Epsilon: 0.1, Count: 1}
)

// A run of votes, then selections, then coefficients, as the budget admits and planned.
func TestVerifyAStagesLedger(t *testing.T) {
	for name, c := range map[string]struct {
		noise    privacy.Event
		training privacy.Event
		plan     privacy.Plan
	}{
		"votes":             {fitted, labels, nil},
		"votes, pure noise": {pureFit, labels, planned(selected.Times(4), pureFit, labels.Times(64))},
		"samples":           {fitted, sampled(0.02, 20, 1), planned(sampled(0.02, 20, 5), selected.Times(3), fitted)},
		"samples and pure noise": {pureFit, sampled(0.02, 20, 1),
			planned(sampled(0.02, 20, 5), selected.Times(3), pureFit)},
	} {
		budget := privacy.Budget{Epsilon: 3, Delta: 1e-5}
		if c.plan != nil {
			budget.Filter = privacy.FilterPLD
		}
		w := newWriter(t, budget)
		if c.plan != nil {
			w.openPlanned("one", budget, c.plan)
		} else {
			w.open("one", budget)
		}
		for round, event := range []privacy.Event{c.training, c.training, selected, selected, selected, c.noise} {
			w.release("one", uint64(round), event)
		}
		w.close("one")
		for check, of := range map[string]func([]byte) (Verification, error){"verify": verify, "strict": verifyStrict} {
			v, err := of(w.bytes())
			if err != nil {
				t.Errorf("%s, %s: %v", name, check, err)
				continue
			}
			run := v.Runs["one"]
			if !run.Closed || run.Releases != 6 || run.Used[paidBy(run.Plan, selected)] != 3 {
				t.Errorf("%s, %s: run %+v", name, check, run)
			}
			if c.plan == nil {
				closeTo(t, name, run.Price.Epsilon, mustAccount(t, w.spent["one"], 1e-5).Epsilon, 1e-12)
			}
		}
	}
}

// Every later change of an entry is detected, with its line.
func TestVerifyFindsAlteredStages(t *testing.T) {
	w := newWriter(t, privacy.Budget{Epsilon: 3, Delta: 1e-5})
	w.open("one", privacy.Budget{Epsilon: 3, Delta: 1e-5})
	w.release("one", 0, selected)
	w.release("one", 1, fitted)
	w.close("one")
	lines := strings.SplitAfter(string(w.bytes()), "\n")
	for at, changes := range map[int][][2]string{
		2: {{`"epsilon":0.02`, `"epsilon":0.01`}, {`"kind":"scores"`, `"kind":"fit"`}, {`"planned":7`, `"planned":8`},
			{`"count":1`, `"count":2`}, {`"kind":"exponential"`, `"kind":"laplace"`},
			{strings.Repeat("0a", 32), strings.Repeat("0b", 32)}},
		3: {{`"sigma":8`, `"sigma":9`}, {`"kind":"fit"`, `"kind":"embedding"`}, {`"queries":1`, `"queries":2`},
			{strings.Repeat("0a", 32), strings.Repeat("0b", 32)}},
	} {
		for _, change := range changes {
			if !strings.Contains(lines[at], change[0]) {
				t.Fatalf("line %d has no %s: %s", at+1, change[0], lines[at])
			}
			altered := append([]string(nil), lines...)
			altered[at] = strings.Replace(lines[at], change[0], change[1], 1)
			var where *LineError
			if _, err := verify([]byte(strings.Join(altered, ""))); !errors.As(err, &where) || where.Line != at+1 {
				t.Errorf("%s for %s: %v, want an error in line %d", change[1], change[0], err, at+1)
			}
		}
	}
	for at := range []int{2, 3} { // or an entry is omitted
		altered := append(append([]string(nil), lines[:2+at]...), lines[3+at:]...)
		if _, err := verify([]byte(strings.Join(altered, ""))); err == nil {
			t.Errorf("without line %d it verifies", 3+at)
		}
	}
}

// A plan with selections, pure noise and two kinds of samples is also enforced.
func TestVerifyRefusesStagesBesideThePlan(t *testing.T) {
	if testing.Short() {
		t.Skip("one thread of arithmetic, and slow with a race detector")
	}
	training, weighing := sampled(0.02, 20, 1), sampled(0.05, 30, 1)
	plan := planned(sampled(0.02, 20, 2), sampled(0.05, 30, 1), selected.Times(2), pureFit)
	budget := privacy.Budget{Epsilon: 2, Delta: 1e-5, Filter: privacy.FilterPLD}
	dearer := selected
	dearer.Epsilon = math.Nextafter(selected.Epsilon, 0)
	other := pureFit
	other.Epsilon = 0.05
	for name, c := range map[string]struct {
		events  []privacy.Event
		message string
	}{
		"all of it":              {[]privacy.Event{training, weighing, training, selected, selected, pureFit}, ""},
		"a third selection":      {[]privacy.Event{selected, selected, selected}, "the plan is used up"},
		"a selection for less":   {[]privacy.Event{selected, dearer}, "do not match"},
		"a second fit":           {[]privacy.Event{pureFit, pureFit}, "the plan is used up"},
		"a fit of other noise":   {[]privacy.Event{other}, "do not match"},
		"a fit of gaussian":      {[]privacy.Event{fitted}, "do not match"},
		"weighing used up":       {[]privacy.Event{training, weighing, weighing}, "the plan is used up"},
		"training used up":       {[]privacy.Event{training, training, training}, "the plan is used up"},
		"the rates' other noise": {[]privacy.Event{sampled(0.02, 30, 1)}, "do not match"},
	} {
		w := newWriter(t, budget)
		w.openPlanned("one", budget, plan)
		for i, event := range c.events {
			w.release("one", uint64(i), event)
		}
		if c.message == "" {
			w.close("one")
			if _, err := verifyStrict(w.bytes()); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		var at *LineError
		if _, err := verify(w.bytes()); !errors.As(err, &at) || at.Line != len(w.entries) ||
			!strings.Contains(err.Error(), c.message) {
			t.Errorf("%s: %v, want %q in line %d", name, err, c.message, len(w.entries))
		}
	}
}
