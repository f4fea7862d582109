package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/conclave-dp/conclave/internal/ledger"
	"github.com/conclave-dp/conclave/internal/pate"
	"github.com/conclave-dp/conclave/internal/runspec"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// votes collects the votes of a run, round by round, for the data-dependent epsilon of
// the PATE papers. It depends on the votes and is PRIVATE itself: no run releases it, and
// this measurement is of public data sets.
type votes struct{ rounds []pate.VotedEvent }

func (v *votes) see(_ string, _ uint64, counts []int64, release *conclavev1.NoisyVotes) {
	classes := int(release.Classes)
	e := pate.VotedEvent{}
	for q, label := range release.Labels {
		e.Votes = append(e.Votes, append([]int64(nil), counts[q*classes:(q+1)*classes]...))
		e.Unanswered = append(e.Unanswered, label < 0)
	}
	if !slices.Contains(e.Unanswered, true) {
		e.Unanswered = nil // mechanisms other than Confident-GNMax answer all queries
	}
	v.rounds = append(v.rounds, e)
}

// roundsFor returns how many rounds fit an epsilon that depends on the votes, and what
// they come to, by the accountant that [pate.DataDependent] has. The ledger says by
// which mechanism the votes were decided.
func (v *votes) roundsFor(epsilon float64, path string) (rounds int, spent float64, err error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return 0, 0, err
	}
	at := 0
	for text := range strings.Lines(string(raw)) {
		var e ledger.Entry
		if err := json.Unmarshal([]byte(text), &e); err != nil {
			return 0, 0, err
		}
		if e.Kind == runspec.GradientVotes && at < len(v.rounds) {
			v.rounds[at].Event = e.Events[0]
			at++
		}
	}
	if at != len(v.rounds) {
		return 0, 0, fmt.Errorf("%d rounds of votes, the ledger has %d", len(v.rounds), at)
	}
	of := func(n int) (float64, error) {
		claim, err := pate.DataDependent(v.rounds[:n], lineDelta)
		if err != nil || claim.RDP == nil {
			return math.Inf(1), err
		}
		return *claim.RDP, nil
	}
	low, high := 0, len(v.rounds)
	for low < high { // the largest number that fits
		middle := (low + high + 1) / 2
		cost, err := of(middle)
		if err != nil {
			return 0, 0, err
		}
		if cost <= epsilon {
			low = middle
		} else {
			high = middle - 1
		}
	}
	if low == 0 {
		return 0, 0, nil
	}
	spent, err = of(low)
	return low, spent, err
}
