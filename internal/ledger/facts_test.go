package ledger

import (
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/study"
)

var gdpBudget = privacy.Budget{Epsilon: 10, Delta: 1e-5}

func TestFactsThatCannotBe(t *testing.T) {
	site := Site{Site: "north", Nodes: 1, Teachers: 2}
	sha := strings.Repeat("ab", 32)
	with := func(change func(*Facts)) Entry {
		f := *facts
		change(&f)
		return Entry{Type: EntryRun, Run: "one", Opening: Opening{Budget: &byPLD, Plan: unlimited()[:1], Facts: &f}}
	}
	of := func(sites ...Site) Entry { return Entry{Type: EntryRoster, Run: "one", Roster: sites} }
	for name, e := range map[string]Entry{
		"no facts": {Type: EntryRun, Run: "one",
			Opening: Opening{Budget: &byPLD, Plan: unlimited()[:1]}},
		"no student":                with(func(f *Facts) { f.Student = "" }),
		"no pipeline":               with(func(f *Facts) { f.Pipeline = "" }),
		"no schema":                 with(func(f *Facts) { f.SchemaSHA256 = "" }),
		"a schema in capitals":      with(func(f *Facts) { f.SchemaSHA256 = strings.Repeat("AB", 32) }),
		"no teachers":               with(func(f *Facts) { f.Teachers = 0 }),
		"an invalid study":          with(func(f *Facts) { f.Study = &study.Block{Name: "s"} }),
		"a purpose in bytes":        with(func(f *Facts) { f.Purpose = "\xff" }),
		"an earlier run twice":      with(func(f *Facts) { f.Earlier = []string{"zero", "zero"} }),
		"an earlier run of no name": with(func(f *Facts) { f.Earlier = []string{""} }),
		"too many earlier runs":     with(func(f *Facts) { f.Earlier = make([]string, MaxEarlier+1) }),
		"no roster":                 of(),
		"a site twice":              of(site, site),
		"sites out of order":        of(Site{Site: "south", Nodes: 1, Teachers: 1}, site),
		"a site without name":       of(Site{Nodes: 1, Teachers: 1}),
		"a site of no node":         of(Site{Site: "north", Teachers: 1}),
		"a roster of a run":         {Type: EntryClose, Run: "one", Roster: []Site{site}},
		"a list of a run":           {Type: EntryRoster, Run: "one", Roster: []Site{site}, Manifest: sha},
		"a list that is none":       {Type: EntryClose, Run: "one", Manifest: "ab"},
	} {
		e.Dataset, e.Day = "flchain", "2026-03-01"
		if err := e.Seal(nil); err == nil {
			t.Errorf("%s was sealed", name)
		}
	}
}

// A ledger's statements about a run's earlier runs and roster are checked against its earlier entries.
func TestHistoriesOfFactsThatCannotBe(t *testing.T) {
	roster := Entry{Type: EntryRoster, Run: "one", Roster: []Site{{Site: "north", Nodes: 1, Teachers: 2}}}
	for name, c := range map[string]struct {
		says  string
		write func(w *writer)
	}{
		"an earlier run that is none": {"continues run", func(w *writer) { w.goesOn("two", "zero") }},
		"an earlier run that is open": {"continues run", func(w *writer) {
			w.open("one", gdpBudget)
			w.goesOn("two", "one")
		}},
		"a roster twice": {"was already fixed", func(w *writer) {
			w.open("one", gdpBudget)
			w.add(roster)
			w.add(roster)
		}},
		"a roster after a question": {"comes after its first question", func(w *writer) {
			w.open("one", gdpBudget)
			w.release("one", 0, labels)
			w.add(roster)
		}},
	} {
		w := newWriter(t, gdpBudget)
		c.write(w)
		if _, err := verify(w.bytes()); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	w := newWriter(t, gdpBudget)
	w.open("one", gdpBudget)
	w.add(roster)
	w.close("one")
	w.goesOn("two", "one")
	w.close("two")
	v, err := verify(w.bytes())
	if err != nil || len(v.Runs["one"].Roster) != 1 || v.Runs["two"].Facts.Earlier[0] != "one" {
		t.Errorf("a right history: %+v, %v", v.Runs, err)
	}
}

// goesOn opens a run that continues another.
func (w *writer) goesOn(run, from string) {
	w.t.Helper()
	f := *facts
	f.Earlier = []string{from}
	w.deltas[run], w.plans[run] = gdpBudget.Delta, unlimited()
	w.add(Entry{Type: EntryRun, Run: run, Opening: Opening{Budget: &gdpBudget, Plan: unlimited(), Facts: &f}})
}
