package results

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/conclave-dp/conclave/internal/ledger"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/report"
)

// ReleasesOf returns a run's releases from the lines of its ledger.
func ReleasesOf(lines [][]byte, run string) []ledger.Entry {
	var releases []ledger.Entry
	for _, line := range lines {
		var e ledger.Entry
		if json.Unmarshal(line, &e) != nil || e.Run != run || e.Round == nil {
			continue // the ledger is verified elsewhere; other entries are not releases
		}
		releases = append(releases, e)
	}
	return releases
}

// roundsOf returns, for the report, the budget after each of a run's releases, which follow the run's plan in a
// verified ledger, and the released answers of the rounds for which they are known.
func roundsOf(releases []ledger.Entry, plan privacy.Plan, shares map[uint64]*report.Shares) []report.Round {
	var rounds []report.Round
	for _, e := range releases {
		rounds = append(rounds, report.Round{
			Round: *e.Round, Kind: e.Kind, Stage: plan[*e.Planned].Stage, Entries: e.Entries,
			EpsilonSpent: e.EpsilonSpent, Queries: e.Queries, Answered: e.Answered, Shares: shares[*e.Round],
		})
	}
	return rounds
}

// ErrOtherLedger means that a student has releases that are not in the ledger: they come from another cluster,
// or the ledger was lost. A certificate from this ledger would state a cost that is too low.
var ErrOtherLedger = errors.New("the ledger does not contain the releases that the student learned from")

// CheckReceipts compares the releases that a student learned from with the charges in the ledger.
func CheckReceipts(receipts []string, releases []ledger.Entry) error {
	paid := map[string]bool{}
	for _, e := range releases {
		paid[e.Hash] = true
	}
	for i, r := range receipts {
		if !paid[r] {
			return fmt.Errorf("%w: release %d of %d, %q, is not among its %d releases of this run; connect to the "+
				"cluster where the run started, or start a run with another name in another folder",
				ErrOtherLedger, i, len(receipts), r, len(releases))
		}
	}
	return nil
}
