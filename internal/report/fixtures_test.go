package report

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/certificate"
	"github.com/conclave-dp/conclave/internal/ledger"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/partitiontest"
)

const (
	sha = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	run = "flchain-eps1"
)

// example is the certificate of a run and its rounds: a class share, GNMax and Confident-GNMax.
func example(t *testing.T) (c certificate.Certificate, rounds []Round) {
	t.Helper()
	perRound := []privacy.Event{{Kind: privacy.Laplace, Epsilon: 0.05, Count: 1}}
	for range 6 {
		perRound = append(perRound, privacy.Event{Kind: privacy.GNMax, Sigma: 112, Count: 64})
	}
	perRound = append(perRound, privacy.Event{Kind: privacy.ConfidentGNMax, Sigma1: 200, Sigma2: 120, Asked: 64,
		Answered: 31})
	for i, event := range perRound {
		claim, err := privacy.Running(perRound[:i+1], 1e-5)
		testkit.Must(t, err)
		r := Round{
			Round: uint64(i), EpsilonSpent: claim.Epsilon,
			Queries: event.Count + event.Asked, Answered: event.Count + event.Answered,
		}
		if i > 0 {
			middle := 0.5 + 0.02*float64(i)
			r.Shares = &Shares{
				Noise: 0.12, P10: middle - 0.4, P25: middle - 0.2, P50: middle, P75: middle + 0.2, P90: middle + 0.4,
			}
		}
		rounds = append(rounds, r)
	}
	claim, err := privacy.Account(perRound, 1e-5)
	testkit.Must(t, err)
	return certificate.Certificate{
		Run: run, SchemaSHA256: strings.Repeat("ab", 32), Pipeline: "pategan",
		Privacy: certificate.Privacy{
			Epsilon: 1, Delta: 1e-5, EpsilonSpent: claim.Epsilon, Guarantee: certificate.DataIndependent,
			Neighbouring: "add-or-remove-one-unit", Unit: partition.UnitRecord, Accountant: claim.Accountant,
			Mechanisms: certificate.Mechanisms(perRound),
		},
		LedgerHead: sha, ManifestSHA256: sha, Rows: 6000, Created: "2026-03-01", Software: "conclave 0.1.0",
		Asked: certificate.Asked{
			Student: "ada", Teachers: 200, Roster: []ledger.Site{{Site: "north", Nodes: 1, Teachers: 200}},
		},
	}, rounds
}

// explained returns the words of a page.
func explained(t *testing.T, p Page) words {
	t.Helper()
	w, err := p.explain()
	testkit.Must(t, err)
	return w
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
	s := partitiontest.Schema(t, clinicSchema)
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
		testkit.Must(t, table.Append(cells, ""))
	}
	return table
}
