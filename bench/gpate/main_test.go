package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/evaluate"
	"github.com/conclave-dp/conclave/examples/flchain"
	"github.com/conclave-dp/conclave/privacy"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
	"github.com/conclave-dp/conclave/run"
)

// Every line has a name of its own and options that a run takes.
func TestLinesAreRuns(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, flchain.Files); err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, l := range lines {
		if names[l.name] {
			t.Errorf("two lines are named %s", l.name)
		}
		names[l.name] = true
		flow := l.options
		if flow == "" {
			flow = "{}"
		}
		path := filepath.Join(dir, "run.yaml")
		text := fmt.Sprintf("name: x\nschema: schema.yaml\npipeline: gpate\nprivacy: {epsilon: %g, delta: %g}\nteachers: %d\nrelease: {rows: %d}\ngpate: %s\n",
			l.epsilon, delta, l.teachers, l.rows, flow)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		spec, err := run.Load(path)
		if err != nil {
			t.Errorf("%s: %v", l.name, err)
			continue
		}
		if l.images {
			continue // no images are part of the project
		}
		schema, err := spec.LoadSchema()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := run.NewPlan(spec, schema); err != nil {
			t.Errorf("%s: %v", l.name, err)
		}
	}
	if _, err := choose("mnist-sum, adult-sum"); err != nil {
		t.Error(err)
	}
	if _, err := choose("mnist"); err == nil {
		t.Error("a line that is not there was chosen")
	}
}

// Unanimous votes cost little when it counts how they fell, and the largest number of
// rounds that fits is found.
func TestRoundsForAnEpsilonThatDependsOnVotes(t *testing.T) {
	const rounds, queries = 6, 20
	v := &votes{}
	var ledger strings.Builder
	for range rounds {
		var counts []int64
		release := &conclavev1.NoisyVotes{Classes: 2}
		for range queries {
			counts, release.Labels = append(counts, 0, 2000), append(release.Labels, 1)
		}
		v.see(counts, release)
		raw, err := json.Marshal(privacy.Entry{Purpose: "gradients", Events: []privacy.Event{{Kind: privacy.GNMax, Sigma: 100, Count: queries}}})
		if err != nil {
			t.Fatal(err)
		}
		ledger.Write(append(raw, '\n'))
	}
	path := filepath.Join(t.TempDir(), "ledger.jsonl")
	if err := os.WriteFile(path, []byte(ledger.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	n, all, err := v.roundsFor(100, path)
	if err != nil || n != rounds {
		t.Fatalf("%d rounds fit, %v", n, err)
	}
	independent, err := privacy.Account([]privacy.Event{{Kind: privacy.GNMax, Sigma: 100, Count: rounds * queries}}, delta)
	if err != nil {
		t.Fatal(err)
	}
	if !(all > 0 && all < independent.Epsilon/2) {
		t.Errorf("epsilon %v, for all votes %v", all, independent.Epsilon)
	}
	n, some, err := v.roundsFor(all*(1-1e-9), path)
	if err != nil || n >= rounds || some > all {
		t.Errorf("%d rounds with epsilon %v fit a little less than %v, %v", n, some, all, err)
	}
}

func TestTheTableSaysThatItIsNotPrivate(t *testing.T) {
	r := &result{Privacy: evaluate.NotPrivate, Name: "x", Epsilon: 1, Ours: []float64{0.5, 0.7}, Coin: []float64{0.4}, Dependent: 0.98}
	if got := r.String(); !strings.Contains(got, "| 0.600 ± 0.141 | 0.400 |") || !strings.Contains(got, "0.98 (data-dependent)") {
		t.Errorf("%s", got)
	}
	if raw, err := json.Marshal(r); err != nil || !strings.Contains(string(raw), "NOT PRIVATE") {
		t.Errorf("%s, %v", raw, err)
	}
}
