package run

import (
	"encoding/json"

	"github.com/conclave-dp/conclave/privacy"
	"github.com/conclave-dp/conclave/report"
)

// roundsOf picks the budget after each of a run's releases from its ledger.
func roundsOf(lines [][]byte, run string) []report.Round {
	var rounds []report.Round
	for _, line := range lines {
		var e privacy.Entry
		if json.Unmarshal(line, &e) != nil || e.Run != run || e.Round == nil {
			continue // the ledger was verified before; other entries are not releases
		}
		rounds = append(rounds, report.Round{Round: *e.Round, EpsilonSpent: e.EpsilonSpent, Queries: e.Queries, Answered: e.Answered})
	}
	return rounds
}
