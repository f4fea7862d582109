package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/ledger"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// Unanimous votes cost little when it counts how they fell, and the largest number of
// rounds that fits is found.
func TestRoundsForAnEpsilonThatDependsOnVotes(t *testing.T) {
	const rounds, queries = 6, 20
	v := &votes{}
	var lines strings.Builder
	for range rounds {
		var counts []int64
		release := &conclavev1.NoisyVotes{Classes: 2}
		for range queries {
			counts, release.Labels = append(counts, 0, 2000), append(release.Labels, 1)
		}
		v.see("", 0, counts, release)
		raw, err := json.Marshal(ledger.Entry{Kind: "gradient-votes",
			Charge: ledger.Charge{Events: []privacy.Event{{Kind: privacy.GNMax, Sigma: 100, Count: queries}}}})
		testkit.Must(t, err)
		lines.Write(append(raw, '\n'))
	}
	path := filepath.Join(t.TempDir(), "ledger.jsonl")
	testkit.Must(t, os.WriteFile(path, []byte(lines.String()), 0o600))
	n, all, err := v.roundsFor(100, path)
	if err != nil || n != rounds {
		t.Fatalf("%d rounds fit, %v", n, err)
	}
	independent, err := privacy.Account([]privacy.Event{{Kind: privacy.GNMax, Sigma: 100, Count: rounds * queries}},
		lineDelta)
	testkit.Must(t, err)
	if !(all > 0 && all < independent.Epsilon/2) {
		t.Errorf("epsilon %v, for all votes %v", all, independent.Epsilon)
	}
	n, some, err := v.roundsFor(all*(1-1e-9), path)
	if err != nil || n >= rounds || some > all {
		t.Errorf("%d rounds with epsilon %v fit a little less than %v, %v", n, some, all, err)
	}
}
