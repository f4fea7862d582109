package sitepolicy

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// site is a folder with a policy and a ledger.
type site struct {
	t      testing.TB
	dir    string
	ledger string
}

func newSite(t testing.TB) site {
	dir := t.TempDir()
	return site{t, dir, filepath.Join(dir, "site-ledger.jsonl")}
}

const allowing = `datasets:
  - {name: d, epsilon: 2, delta: 1e-5, pipelines: [pategan, embed], stages: [selections],
     min_rows: 100, min_rows_per_teacher: 5, approval: automatic}
`

func (s site) write(policy string) {
	s.t.Helper()
	testkit.Must(s.t, os.WriteFile(filepath.Join(s.dir, "policy.yaml"), []byte(policy), 0o600))
}

func (s site) enforcer(changes ...func(*Options)) *Enforcer {
	o := Options{
		Policy: filepath.Join(s.dir, "policy.yaml"), Ledger: s.ledger, Dataset: "d", Site: "north", Node: "0",
		SchemaSHA256: digest("schema"), Unit: "record", Facts: Facts{Units: 1000, LeastUnits: 8},
	}
	for _, change := range changes {
		change(&o)
	}
	g := New(o)
	g.ledger.sync = unsynced
	return g
}

// unsynced skips syncing, because tests lose no power.
func unsynced(*os.File) error { return nil }

func (s site) lines() []string {
	s.t.Helper()
	raw, err := os.ReadFile(s.ledger)
	testkit.Must(s.t, err)
	return strings.SplitAfter(strings.TrimSuffix(string(raw), "\n"), "\n")
}

func digest(of string) string {
	sum := sha256.Sum256([]byte(of))
	return hex.EncodeToString(sum[:])
}

// planOf is a plan with these kinds of questions, at a price that does not matter here.
func planOf(kinds ...Kind) (plan privacy.Plan) {
	for _, k := range kinds {
		plan = append(plan, privacy.Planned{Kind: string(k), Mechanism: privacy.Event{Kind: privacy.GNMax, Sigma: 9}})
	}
	return plan
}

// round is a round of votes with noise of sigma.
func round(run string, number uint64, sigma float64) Request {
	return Request{
		Run: run, Round: number, SpecSHA256: digest("spec of " + run), Question: digest(run + string(rune(number))),
		Spec: Spec{Dataset: "d", SchemaSHA256: digest("schema"), Unit: "record", Pipeline: "pategan", Epsilon: 100,
			Delta: 1e-5, Guarantee: "data-independent", Teachers: 100, Plan: planOf(ClassCounts, EmbeddingSum, Votes)},
		Kind: Votes, Use: privacy.Use{Planned: 2, Queries: 1, Answered: 1},
		Charges: []privacy.Event{{Kind: privacy.GNMax, Sigma: sigma, Count: 1}},
	}
}

// refusedBy returns the refusal of an error, which must have this rule.
func refusedBy(t testing.TB, err error, rule Rule) *Refusal {
	t.Helper()
	var r *Refusal
	if !errors.As(err, &r) || r.Rule != rule {
		t.Fatalf("error %v, want a refusal by rule %s", err, rule)
	}
	return r
}
