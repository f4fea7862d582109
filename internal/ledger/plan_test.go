package ledger

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/testkit"
)

func (w *writer) openPlanned(run string, budget privacy.Budget, plan privacy.Plan) {
	w.t.Helper()
	w.deltas[run], w.plans[run] = budget.Delta, plan
	if price, err := privacy.Account(plan.Events(), budget.Delta); err == nil && budget.Filter == privacy.FilterPLD {
		w.prices[run] = price.Epsilon
	}
	w.add(Entry{Type: EntryRun, Run: run, Opening: Opening{Budget: &budget, Plan: plan, Facts: facts}})
}

// plannedLedger has a run with some of its releases, and the class shares.
func plannedLedger(t testing.TB, dataset, run privacy.Budget, plan privacy.Plan, releases int) *writer {
	w := newWriter(t, dataset)
	w.openPlanned("one", run, plan)
	w.release("one", 0, shares)
	for i := range releases {
		w.release("one", uint64(i+1), plan[1].Worst(1)[0])
	}
	w.close("one")
	return w
}

var byPLD = privacy.Budget{Epsilon: 1, Delta: 1e-5, Filter: privacy.FilterPLD}

func TestVerifyAPlannedRun(t *testing.T) {
	if testing.Short() {
		t.Skip("one thread of arithmetic, and slow with a race detector")
	}
	plan := planFor(t, byPLD, 10)
	price, err := plan.Check(byPLD)
	testkit.Must(t, err)
	for _, dataset := range []privacy.Budget{byPLD, {Epsilon: 2, Delta: 1e-6, Filter: privacy.FilterPLD},
		{Epsilon: 3, Delta: 1e-5, Filter: privacy.FilterRDP}, {Epsilon: 60, Delta: 1e-5}} {
		for _, releases := range []int{1, 10} {
			w := plannedLedger(t, dataset, byPLD, plan, releases)
			v, err := verifyStrict(w.bytes())
			if err != nil {
				t.Errorf("dataset %+v, %d releases: %v", dataset, releases, err)
				continue
			}
			run := v.Runs["one"]
			if !slices.Equal(run.Plan, plan) || run.PlanPrice == nil || run.PlanPrice.Epsilon != price.Epsilon ||
				run.Price.Epsilon > price.Epsilon {
				t.Errorf("run %+v", run)
			}
			if dataset.Filter == privacy.FilterPLD && v.Price.Epsilon > dataset.Epsilon {
				t.Errorf("the dataset's price is %v", v.Price.Epsilon)
			}
		}
	}
	line := plannedLedger(t, byPLD, byPLD, plan, 1).entries[1]
	raw, err := line.Canonical()
	want := `"filter":"pld"},"plan":[{"kind":"class-counts","mechanism":{"kind":"laplace","epsilon":0.05},"count":1},` +
		`{"kind":"discriminator","mechanism":{"kind":"subsampled-gaussian"`
	if err != nil || !bytes.Contains(raw, []byte(want)) {
		t.Errorf("entry %s, %v", raw, err)
	}
}

func TestVerifyRefusesWrongPlans(t *testing.T) {
	if testing.Short() {
		t.Skip("one thread of arithmetic, and slow with a race detector")
	}
	plan := planFor(t, byPLD, 30)
	more := slices.Clone(plan)
	more[1].Count++
	one := func(w *writer) { w.openPlanned("one", byPLD, plan) }
	for _, c := range []struct {
		name, message string
		dataset       privacy.Budget
		strict        bool
		write         func(w *writer)
	}{
		{"past its budget", "the whole plan", byPLD, false, func(w *writer) { w.openPlanned("one", byPLD, more) }},
		{"past the dataset's budget", "budget of dataset",
			privacy.Budget{Epsilon: 0.9, Delta: 1e-5, Filter: privacy.FilterPLD}, false, one},
		{"past the dataset's budget at its delta", "budget of dataset",
			privacy.Budget{Epsilon: 1, Delta: 1e-7, Filter: privacy.FilterPLD}, false, one},
		{"a second run", "can have only one " +
			"run", byPLD, false, func(w *writer) { one(w); w.openPlanned("two", byPLD, plan) }},
		{"a run without a plan on such a dataset", "needs a run with filter pld", byPLD, false, func(w *writer) {
			w.open("one", privacy.Budget{Epsilon: 0.5, Delta: 1e-5})
		}},
		{"a run for fewer sites than the dataset's", "may be at up to 2", byPLD.WithOverlap(2), false, one},
		{"a plan for fewer sites than the run's", "entry 0, for class-counts, pays for a sensitivity of 1",
			byPLD.WithOverlap(2), false, func(w *writer) { w.openPlanned("one", byPLD.WithOverlap(2), plan) }},
		{"more than the plan", "the plan is used up", byPLD, false, func(w *writer) {
			one(w)
			w.release("one", 0, shares)
			w.release("one", 1, shares)
		}},
		{"other noise", "do not match", byPLD, false, func(w *writer) {
			one(w)
			w.release("one", 0, sampled(0.02, 50, 1))
		}},
		{"epsilon without the plan's price", "epsilon_spent", byPLD, false, func(w *writer) {
			one(w)
			w.prices["one"] = 0
			w.release("one", 0, plan[1].Worst(1)[0])
		}},
		{"a plan that cannot end", "filter, gdp", privacy.Budget{Epsilon: 1, Delta: 1e-5}, true, one},
		{"a plan that cannot end, as it is used", `budget of dataset "flchain"`,
			privacy.Budget{Epsilon: 1, Delta: 1e-5}, false, func(w *writer) {
				one(w)
				w.release("one", 0, plan[1].Worst(1)[0])
			}},
		{"more samples in a release than the plan has", "the plan is used up", byPLD, false, func(w *writer) {
			one(w)
			w.release("one", 0, plan[1].Worst(31)[0])
		}},
	} {
		w := newWriter(t, c.dataset)
		c.write(w)
		check := verify
		if c.strict {
			check = verifyStrict
		}
		var at *LineError
		if _, err := check(w.bytes()); !errors.As(err, &at) || at.Line != len(w.entries) ||
			!strings.Contains(err.Error(), c.message) {
			t.Errorf("%s: %v, want %q in line %d", c.name, err, c.message, len(w.entries))
		}
	}
}

func TestSealRefusesMisplacedPlans(t *testing.T) {
	plan := planned(shares, sampled(0.02, 20, 3))
	gdp := privacy.Budget{Epsilon: 1, Delta: 1e-5}
	release := releaseOf(plan, 0, shares)
	release.Run, release.Plan = "one", plan
	twice := slices.Clone(plan)
	twice[0].Mechanism.Count = 2
	for _, e := range []Entry{
		{Type: EntryRun, Run: "one", Opening: Opening{Budget: &byPLD, Facts: facts}},
		{Type: EntryRun, Run: "one", Opening: Opening{Budget: &gdp, Facts: facts}},
		{Type: EntryRun, Run: "one", Opening: Opening{Budget: &byPLD, Plan: twice, Facts: facts}},
		{Type: EntryRun, Run: "one",
			Opening: Opening{Budget: &byPLD, Plan: privacy.Plan{{Kind: "votes"}}, Facts: facts}},
		{Type: EntryOpen, Opening: Opening{Budget: &byPLD, Unit: "record", Neighbouring: "x", Plan: plan}},
		{Type: EntryClose, Run: "one", Opening: Opening{Plan: plan}},
		release,
	} {
		e.Dataset = "flchain"
		if e.Type != EntryRelease {
			e.Day = "1970-01-01"
		}
		if err := e.Seal(nil); err == nil {
			t.Errorf("sealed: %+v", e)
		}
	}
	// A plan that is changed later, with its hashes, no longer covers the same releases.
	w := plannedLedger(t, byPLD, byPLD, plan, 3)
	if _, err := verify(w.bytes()); err != nil {
		t.Fatal(err)
	}
	for _, edit := range [][2]string{{`"count":3`, `"count":2`}, {`"rate":0.02`, `"rate":0.01`},
		{`"noise_multiplier":20`, `"noise_multiplier":21`}} {
		if _, err := verify(bytes.Replace(w.bytes(), []byte(edit[0]), []byte(edit[1]), 1)); err == nil {
			t.Errorf("%v was not found", edit)
		}
		forged := newWriter(t, byPLD)
		changed := slices.Clone(plan)
		switch edit[1] {
		case `"count":2`:
			changed[1].Count = 2
		case `"rate":0.01`:
			changed[1].Mechanism.Rate = 0.01
		default:
			changed[1].Mechanism.NoiseMultiplier = 21
		}
		forged.openPlanned("one", byPLD, changed)
		for _, e := range w.entries[2:] {
			forged.add(e)
		}
		if _, err := verify(forged.bytes()); err == nil {
			t.Errorf("%v, with hashes that fit: %v", edit, err)
		}
	}
}

func BenchmarkVerifyPlanned(b *testing.B) {
	const releases = 5000
	plan := planFor(b, byPLD, releases)
	for _, dataset := range []privacy.Budget{byPLD, {Epsilon: 2, Delta: 1e-5, Filter: privacy.FilterRDP}} {
		ledger := plannedLedger(b, dataset, byPLD, plan, releases).bytes()
		b.Run(string(dataset.Filter), func(b *testing.B) {
			for b.Loop() {
				if _, err := verifyStrict(ledger); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
