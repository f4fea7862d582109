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

// selectionEntry is a release of one selection.
func selectionEntry(round uint64) Entry {
	return Entry{Type: EntryRelease, Round: &round, Purpose: "selection", Events: []privacy.Event{selected},
		Queries: 1, Answered: 1, ReleaseSHA256: strings.Repeat("0b", 32)}
}

// weightsEntry is a release of 12 coefficients with such noise.
func weightsEntry(round uint64, noise privacy.Event) Entry {
	e := Entry{Type: EntryRelease, Round: &round, Purpose: "weights", Events: []privacy.Event{noise},
		Queries: 1, Answered: 1, ReleaseSHA256: strings.Repeat("0c", 32)}
	if noise.Kind == privacy.Gaussian {
		e.Queries, e.Answered = 12, 12
	}
	return e
}

// A run of votes, then selections, then coefficients, without a plan and with one.
func TestVerifyAStagesLedger(t *testing.T) {
	for name, c := range map[string]struct {
		noise    privacy.Event
		training privacy.Event
		plan     privacy.Plan
	}{
		"votes":                  {fitted, labels, nil},
		"votes, pure noise":      {pureFit, labels, privacy.Plan{{Kind: privacy.Exponential, Epsilon: 0.02, Count: 4}, pureFit, {Kind: privacy.GNMax, Sigma: 150, Count: 64}}},
		"samples":                {fitted, sampled(0.02, 20, 1), privacy.Plan{sampled(0.02, 20, 5), {Kind: privacy.Exponential, Epsilon: 0.02, Count: 3}, fitted}},
		"samples and pure noise": {pureFit, sampled(0.02, 20, 1), privacy.Plan{sampled(0.02, 20, 5), {Kind: privacy.Exponential, Epsilon: 0.02, Count: 3}, pureFit}},
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
		w.release("one", 0, c.training)
		w.release("one", 1, c.training)
		for round := range uint64(3) {
			w.pay("one", selectionEntry(2+round))
		}
		w.pay("one", weightsEntry(5, c.noise))
		w.close("one")
		for check, of := range map[string]func([]byte) (Verification, error){"verify": verify, "audit": verifyStrict} {
			v, err := of(w.bytes())
			if err != nil {
				t.Errorf("%s, %s: %v", name, check, err)
				continue
			}
			if run := v.Runs["one"]; !run.Closed || run.Releases != 6 {
				t.Errorf("%s, %s: run %+v", name, check, run)
			}
			if c.plan == nil {
				closeTo(t, name, v.Runs["one"].Claim.Epsilon, mustAccount(t, w.spent["one"], 1e-5).Epsilon, 1e-12)
			}
		}
	}
}

// Whatever is changed of an entry afterwards is found, by its line.
func TestVerifyFindsAlteredStages(t *testing.T) {
	w := newWriter(t, privacy.Budget{Epsilon: 3, Delta: 1e-5})
	w.open("one", privacy.Budget{Epsilon: 3, Delta: 1e-5})
	w.pay("one", selectionEntry(0))
	w.pay("one", weightsEntry(1, fitted))
	w.close("one")
	lines := strings.SplitAfter(string(w.bytes()), "\n")
	for at, changes := range map[int][][2]string{
		2: {{`"epsilon":0.02`, `"epsilon":0.01`}, {`"purpose":"selection"`, `"purpose":"weights"`}, {`"count":1`, `"count":2`}, {`"kind":"exponential"`, `"kind":"laplace"`}, {strings.Repeat("0b", 32), strings.Repeat("0a", 32)}},
		3: {{`"sigma":8`, `"sigma":9`}, {`"purpose":"weights"`, `"purpose":"embedding"`}, {`"queries":12`, `"queries":13`}, {strings.Repeat("0c", 32), strings.Repeat("0a", 32)}},
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
	for at := range []int{2, 3} { // or an entry is left out
		altered := append(append([]string(nil), lines[:2+at]...), lines[3+at:]...)
		if _, err := verify([]byte(strings.Join(altered, ""))); err == nil {
			t.Errorf("without line %d it verifies", 3+at)
		}
	}
}

// Entries of these purposes that no aggregator writes, though hashes and budgets hold.
func TestAuditFindsWrongStages(t *testing.T) {
	if testing.Short() {
		t.Skip("one thread of arithmetic, and slow with a race detector")
	}
	selection := func(change func(e *Entry)) Entry { e := selectionEntry(0); change(&e); return e }
	weights := func(noise privacy.Event, change func(e *Entry)) Entry {
		e := weightsEntry(0, noise)
		change(&e)
		return e
	}
	three := func(e *Entry) {
		e.Events, e.Queries, e.Answered = []privacy.Event{{Kind: privacy.Exponential, Epsilon: 0.02, Count: 3}}, 3, 3
	}
	for name, c := range map[string]struct {
		entry   Entry
		message string // no message: nothing is wrong
	}{
		"a selection":              {selection(func(*Entry) {}), ""},
		"coefficients":             {weights(fitted, func(*Entry) {}), ""},
		"pure coefficients":        {weights(pureFit, func(*Entry) {}), ""},
		"three selections at once": {selection(three), "a release holds one"},
		"two kinds of selection": {selection(func(e *Entry) {
			e.Events, e.Queries, e.Answered = []privacy.Event{selected, {Kind: privacy.Exponential, Epsilon: 0.03, Count: 1}}, 2, 2
		}), "a release holds one"},
		"a selection not answered":    {selection(func(e *Entry) { e.Answered = 0 }), "is not what the events paid for"},
		"votes as a selection":        {selection(func(e *Entry) { e.Events = []privacy.Event{labels}; e.Queries, e.Answered = 32, 32 }), "a gnmax event does not belong"},
		"counts as a selection":       {selection(func(e *Entry) { e.Events = []privacy.Event{shares} }), "a laplace event does not belong"},
		"a selection as coefficients": {weights(selected, func(*Entry) {}), "exponential event does not belong"},
		"a selection as labels":       {selection(func(e *Entry) { e.Purpose = "labels" }), "exponential event does not belong"},
		"votes as coefficients":       {weights(labels, func(e *Entry) { e.Queries, e.Answered = 32, 32 }), "a gnmax event does not belong"},
		"a sample as coefficients":    {weights(sampled(0.02, 20, 1), func(e *Entry) { e.Queries, e.Answered = 12, 12 }), "a subsampled-gaussian event does not belong"},
		"coefficients not answered":   {weights(fitted, func(e *Entry) { e.Answered = 11 }), "11 of 12 entries"},
		"two vectors":                 {weights(privacy.Event{Kind: privacy.Gaussian, Sigma: 8, Sensitivity: 1, Count: 2}, func(e *Entry) { e.Queries, e.Answered = 12, 12 }), "of 2 noisy sums"},
		"two pure vectors":            {weights(privacy.Event{Kind: privacy.Laplace, Epsilon: 0.1, Count: 2}, func(e *Entry) { e.Queries, e.Answered = 2, 2 }), "a release holds one"},
		"both kinds of noise":         {weights(fitted, func(e *Entry) { e.Events = append(e.Events, pureFit) }), "in 2 events"},
		"another word":                {selection(func(e *Entry) { e.Purpose = "selections" }), `purpose is "selections"`},
	} {
		w := newWriter(t, privacy.Budget{Epsilon: 3, Delta: 1e-5})
		w.open("one", privacy.Budget{Epsilon: 3, Delta: 1e-5})
		w.pay("one", c.entry)
		w.close("one")
		if _, err := verify(w.bytes()); err != nil {
			t.Fatalf("%s: hashes or budgets are wrong: %v", name, err)
		}
		_, err := verifyStrict(w.bytes())
		var at *LineError
		if c.message == "" && err != nil || c.message != "" &&
			(!errors.As(err, &at) || at.Line != 3 || !strings.Contains(err.Error(), c.message)) {
			t.Errorf("%s: error is %v, want %q in line 3", name, err, c.message)
		}
	}
}

// A plan is kept also where it holds selections, pure noise and two kinds of samples.
func TestVerifyRefusesStagesBesideThePlan(t *testing.T) {
	if testing.Short() {
		t.Skip("one thread of arithmetic, and slow with a race detector")
	}
	training, weighing := sampled(0.02, 20, 1), sampled(0.05, 30, 1)
	plan := privacy.Plan{sampled(0.02, 20, 2), sampled(0.05, 30, 1), {Kind: privacy.Exponential, Epsilon: 0.02, Count: 2}, pureFit}
	budget := privacy.Budget{Epsilon: 2, Delta: 1e-5, Filter: privacy.FilterPLD}
	dearer := selected
	dearer.Epsilon = math.Nextafter(selected.Epsilon, 0)
	other := pureFit
	other.Epsilon = 0.05
	entryOf := func(round uint64, event privacy.Event) Entry {
		switch event.Kind {
		case privacy.Exponential:
			e := selectionEntry(round)
			e.Events = []privacy.Event{event}
			return e
		case privacy.SubsampledGaussian:
			return Entry{Type: EntryRelease, Round: &round, Purpose: "discriminator", Events: []privacy.Event{event}, Queries: 5, Answered: 5, ReleaseSHA256: strings.Repeat("0a", 32)}
		}
		return weightsEntry(round, event)
	}
	for name, c := range map[string]struct {
		events  []privacy.Event
		message string
	}{
		"all of it":              {[]privacy.Event{training, weighing, training, selected, selected, pureFit}, ""},
		"a third selection":      {[]privacy.Event{selected, selected, selected}, "the plan is used up"},
		"a selection for less":   {[]privacy.Event{selected, dearer}, "has no"},
		"a second fit":           {[]privacy.Event{pureFit, pureFit}, "the plan is used up"},
		"a fit of other noise":   {[]privacy.Event{other}, "has no"},
		"a fit of gaussian":      {[]privacy.Event{fitted}, "has no"},
		"weighing used up":       {[]privacy.Event{training, weighing, weighing}, "the plan is used up"},
		"training used up":       {[]privacy.Event{training, training, training}, "the plan is used up"},
		"the rates' other noise": {[]privacy.Event{sampled(0.02, 30, 1)}, "has no"},
	} {
		w := newWriter(t, budget)
		w.openPlanned("one", budget, plan)
		for i, event := range c.events {
			w.pay("one", entryOf(uint64(i), event))
		}
		if c.message == "" {
			w.close("one")
			if _, err := verifyStrict(w.bytes()); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		var at *LineError
		if _, err := verify(w.bytes()); !errors.As(err, &at) || at.Line != len(w.entries) || !strings.Contains(err.Error(), c.message) {
			t.Errorf("%s: %v, want %q in line %d", name, err, c.message, len(w.entries))
		}
	}
}
