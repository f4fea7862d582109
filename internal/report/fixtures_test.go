package report

import (
	"bytes"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/conclave-dp/conclave/internal/ledger"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/partition"
)

const (
	sha   = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	run   = "flchain-eps1"
	scope = "add-or-remove-one-unit"
)

// writeLedger seals entries one to another and gives the file.
func writeLedger(t *testing.T, entries ...ledger.Entry) []byte {
	t.Helper()
	var out bytes.Buffer
	var previous *ledger.Entry
	for i := range entries {
		e := entries[i]
		e.Time = ledger.FormatTime(time.Date(2026, 3, 1, 12, 0, i, 0, time.UTC))
		e.Dataset = "flchain"
		if err := e.Seal(previous); err != nil {
			t.Fatal(err)
		}
		line, err := e.Canonical()
		if err != nil {
			t.Fatal(err)
		}
		out.Write(append(line, '\n'))
		previous = &e
	}
	return out.Bytes()
}

func opening(name string, epsilon float64) []ledger.Entry {
	return []ledger.Entry{
		{Type: ledger.EntryOpen, Budget: &privacy.Budget{Epsilon: 10, Delta: 1e-5}, Unit: partition.UnitRecord, Neighbouring: scope},
		{Type: ledger.EntryRun, Run: name, Budget: &privacy.Budget{Epsilon: epsilon, Delta: 1e-5}},
	}
}

// releases charges one list of events per round.
func releases(t *testing.T, name string, perRound ...[]privacy.Event) (entries []ledger.Entry, spent float64) {
	t.Helper()
	var all []privacy.Event
	for i, events := range perRound {
		all = append(all, events...)
		claim, err := privacy.Running(all, 1e-5)
		if err != nil {
			t.Fatal(err)
		}
		round := uint64(i)
		spent = claim.Epsilon
		e := ledger.Entry{Type: ledger.EntryRelease, Run: name, Round: &round, Purpose: "labels",
			Events: events, EpsilonSpent: spent, ReleaseSHA256: sha}
		for _, event := range events {
			e.Queries += event.Count + event.Asked
			e.Answered += event.Count + event.Answered
			if event.Kind == privacy.Laplace {
				e.Purpose = "class-share"
			}
		}
		entries = append(entries, e)
	}
	return entries, spent
}

// example is a finished run: a class share, GNMax and Confident-GNMax rounds. It
// is made once, and each test gets a copy of its own.
func example(t *testing.T) (raw []byte, c Certificate, rounds []Round) {
	t.Helper()
	made.Do(func() { made.ledger, made.certificate, made.rounds = makeExample(t) })
	c = made.certificate
	c.Mechanisms = slices.Clone(c.Mechanisms)
	for i := range c.Mechanisms {
		c.Mechanisms[i].Parameters = maps.Clone(c.Mechanisms[i].Parameters)
	}
	return slices.Clone(made.ledger), c, slices.Clone(made.rounds)
}

var made struct {
	sync.Once
	ledger      []byte
	certificate Certificate
	rounds      []Round
}

func makeExample(t *testing.T) (raw []byte, c Certificate, rounds []Round) {
	t.Helper()
	perRound := [][]privacy.Event{{{Kind: privacy.Laplace, Epsilon: 0.05, Count: 1}}}
	for range 6 {
		perRound = append(perRound, []privacy.Event{{Kind: privacy.GNMax, Sigma: 112, Count: 64}})
	}
	perRound = append(perRound,
		[]privacy.Event{{Kind: privacy.ConfidentGNMax, Threshold: 0, Sigma1: 200, Sigma2: 120, Asked: 64, Answered: 31}})
	charged, spent := releases(t, run, perRound...)
	entries := append(opening(run, 1), charged...)
	entries = append(entries, ledger.Entry{Type: ledger.EntryClose, Run: run, EpsilonSpent: spent})
	raw = writeLedger(t, entries...)
	verified, err := ledger.Verify(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	c, err = NewCertificate(facts(), verified)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range charged {
		rounds = append(rounds, Round{Round: *e.Round, EpsilonSpent: e.EpsilonSpent, Queries: e.Queries, Answered: e.Answered})
		if e.Purpose == "labels" {
			middle := 0.5 + 0.02*float64(*e.Round)
			rounds[len(rounds)-1].Shares = &Shares{Noise: 0.12, P10: middle - 0.4, P25: middle - 0.2, P50: middle, P75: middle + 0.2, P90: middle + 0.4}
		}
	}
	return raw, c, rounds
}

func facts() Facts {
	return Facts{
		Run: run, SchemaSHA256: strings.Repeat("ab", 32), Pipeline: "pategan", Guarantee: DataIndependent,
		Neighbouring: scope, Unit: partition.UnitRecord, Rows: 6000, Teachers: 200,
		Created: time.Date(2026, 3, 1, 12, 5, 0, 0, time.UTC), Software: "conclave 0.1.0",
	}
}

const clinicSchema = `name: clinic
task: binary
label: label
positive: 1
columns:
  - {name: age, kind: integer, lower: 0, upper: 110}
  - {name: creatinine, kind: continuous, lower: 0, upper: 12, nullable: true, doc: "mg/dl"}
  - {name: ward, kind: categorical, categories: [surgery, medicine, "intensive & <critical> care"]}
  - {name: country, kind: categorical, categories: [a, b, c, d, e, f, g, h, i, j, k, l, m, n]}
  - {name: year, kind: integer, lower: 1995, upper: 2003}
  - {name: label, kind: binary, lower: 0, upper: 1, doc: "1 = died"}
`

func clinic(t *testing.T, rows int, seed uint64, shift float64) *partition.Table {
	t.Helper()
	s, err := partition.ParseSchema([]byte(clinicSchema))
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(seed, 1))
	table := partition.NewTable(s)
	for range rows {
		creatinine := math.Min(12, math.Exp(0.4*r.NormFloat64()+shift))
		if r.Float64() < 0.17 {
			creatinine = math.NaN()
		}
		cells := []float64{
			math.Round(math.Max(0, math.Min(110, 64+14*r.NormFloat64()+20*shift))), creatinine,
			float64(min(2, r.IntN(4))), math.Floor(14 * r.Float64() * r.Float64()),
			float64(1995 + r.IntN(9)), float64(r.IntN(3) / 2),
		}
		if err := table.Append(cells, ""); err != nil {
			t.Fatal(err)
		}
	}
	return table
}
