package certificate

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/conclave-dp/conclave/internal/ledger"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
)

const (
	sha   = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	run   = "flchain-eps1"
	scope = "add-or-remove-one-unit"
)

// writeLedger chains entries and returns the file.
func writeLedger(t *testing.T, entries ...ledger.Entry) []byte {
	t.Helper()
	var out bytes.Buffer
	var previous *ledger.Entry
	for i := range entries {
		e := entries[i]
		if e.Type != ledger.EntryRelease {
			e.Day = "2026-03-01"
		}
		e.Dataset = "flchain"
		testkit.Must(t, e.Seal(previous))
		line, err := e.Canonical()
		testkit.Must(t, err)
		out.Write(append(line, '\n'))
		previous = &e
	}
	return out.Bytes()
}

func opening(name string, epsilon float64) []ledger.Entry {
	return []ledger.Entry{
		{Type: ledger.EntryOpen, Opening: ledger.Opening{
			Budget: &privacy.Budget{Epsilon: 10, Delta: 1e-5}, Unit: partition.UnitRecord, Neighbouring: scope,
		}},
		{Type: ledger.EntryRun, Run: name, Opening: ledger.Opening{
			Budget: &privacy.Budget{Epsilon: epsilon, Delta: 1e-5}, Plan: anyPlan, Facts: runFacts(),
		}},
	}
}

// anyPlan has every mechanism that these tests charge for, as often as the budget admits.
var anyPlan = privacy.Plan{
	{Kind: "class-counts", Mechanism: privacy.Event{Kind: privacy.Laplace, Epsilon: 0.05}},
	{Kind: "votes", Mechanism: privacy.Event{Kind: privacy.GNMax, Sigma: 112}},
	{Kind: "votes", Mechanism: privacy.Event{Kind: privacy.GNMax, Sigma: 100}},
	{Kind: "votes", Mechanism: privacy.Event{Kind: privacy.GNMax, Sigma: 200}},
	{Kind: "votes", Mechanism: privacy.Event{Kind: privacy.ConfidentGNMax, Sigma1: 200, Sigma2: 120}},
}

// releases charges one list of events per round.
func releases(t *testing.T, name string, perRound ...[]privacy.Event) (entries []ledger.Entry, spent float64) {
	t.Helper()
	var all []privacy.Event
	for i, events := range perRound {
		all = append(all, events...)
		price, err := privacy.Running(all, 1e-5)
		testkit.Must(t, err)
		round := uint64(i)
		spent = price.Epsilon
		e := ledger.Entry{Type: ledger.EntryRelease, Run: name, Round: &round,
			Charge: ledger.Charge{Events: events, EpsilonSpent: spent, ReleaseSHA256: sha}}
		for _, event := range events {
			e.Queries += event.Count + event.Asked
			e.Answered += event.Count + event.Answered
			at := slices.IndexFunc(anyPlan, func(p privacy.Planned) bool {
				return p.Mechanism.Times(1) == event.Times(1)
			})
			if at < 0 {
				t.Fatalf("no entry of the plan pays for %v", event)
			}
			e.Planned, e.Kind = &at, anyPlan[at].Kind
		}
		entries = append(entries, e)
	}
	return entries, spent
}

// example is a finished run: a class share, GNMax and Confident-GNMax rounds. It is made once, and each test gets its
// own copy. last is the spending in the ledger's last round.
func example(t *testing.T) (raw []byte, c Certificate, last float64) {
	t.Helper()
	made.Do(func() { made.ledger, made.certificate, made.last = makeExample(t, "pategan") })
	c = made.certificate
	c.Mechanisms = slices.Clone(c.Mechanisms)
	for i := range c.Mechanisms {
		c.Mechanisms[i].Parameters = maps.Clone(c.Mechanisms[i].Parameters)
	}
	return slices.Clone(made.ledger), c, made.last
}

var made struct {
	sync.Once
	ledger      []byte
	certificate Certificate
	last        float64
}

func makeExample(t *testing.T, pipeline string) (raw []byte, c Certificate, last float64) {
	t.Helper()
	perRound := [][]privacy.Event{{{Kind: privacy.Laplace, Epsilon: 0.05, Count: 1}}}
	for range 6 {
		perRound = append(perRound, []privacy.Event{{Kind: privacy.GNMax, Sigma: 112, Count: 64}})
	}
	perRound = append(perRound,
		[]privacy.Event{{Kind: privacy.ConfidentGNMax, Threshold: 0, Sigma1: 200, Sigma2: 120, Asked: 64,
			Answered: 31}})
	charged, spent := releases(t, run, perRound...)
	entries := append(opening(run, 1), roster(run))
	entries = append(entries, charged...)
	entries = append(entries,
		ledger.Entry{Type: ledger.EntryClose, Run: run, Charge: ledger.Charge{EpsilonSpent: spent}})
	entries[1].Facts.Pipeline = pipeline
	raw = writeLedger(t, entries...)
	verified, err := ledger.Verify(bytes.NewReader(raw))
	testkit.Must(t, err)
	total := verified.Runs[run]
	total.Facts.Pipeline = "pategan" // certificates of other pipelines cannot be made
	verified.Runs[run] = total
	c, err = New(facts(), verified)
	testkit.Must(t, err)
	c.Pipeline = pipeline
	return raw, c, spent
}

func runFacts(earlier ...string) *ledger.Facts {
	return &ledger.Facts{
		Student: "ada", Pipeline: "pategan", SchemaSHA256: strings.Repeat("ab", 32), Teachers: 200, Earlier: earlier,
	}
}

// roster is the roster of a run.
func roster(name string) ledger.Entry {
	return ledger.Entry{Type: ledger.EntryRoster, Run: name, Roster: []ledger.Site{
		{Site: "north", Nodes: 1, Teachers: 120}, {Site: "south", Nodes: 2, Teachers: 80},
	}}
}

func facts() Facts {
	return Facts{
		Run: run, Guarantee: DataIndependent, Rows: 6000, TeachersLeast: 200, Manifest: strings.Repeat("cd", 32),
		Created: time.Date(2026, 3, 1, 12, 5, 0, 0, time.UTC), Software: "conclave 0.1.0",
	}
}
