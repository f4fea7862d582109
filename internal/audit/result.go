package audit

import (
	"fmt"
	"strings"

	"github.com/conclave-dp/conclave/internal/privacy"
)

// Result is what the audit of one case found.
type Result struct {
	// Case is one of [Cases], Mechanism the kind of the events it is about.
	Case      string       `json:"case"`
	Mechanism privacy.Kind `json:"mechanism"`
	// Events are the cost of one run as its ledger has it, with every question of
	// a Confident-GNMax counted as answered: what the budget's filter reserved
	// before the run was asked.
	Events []privacy.Event `json:"events"`
	// Rounds and Queries are those of one run.
	Rounds  int `json:"rounds"`
	Queries int `json:"queries"`
	// Runs is the number of runs in each of the two worlds.
	Runs int `json:"runs"`
	// Epsilon is the claim of one run at Delta, proven for Events by Accountant.
	Epsilon    float64 `json:"epsilon"`
	Delta      float64 `json:"delta"`
	Accountant string  `json:"accountant"`
	// LowerBound holds the epsilon that the trials prove.
	LowerBound Bound `json:"lower_bound"`
	// Confidence is that of LowerBound, and one minus the probability that a
	// program which keeps its claim is called a violation.
	Confidence float64 `json:"confidence"`
	// Violation says that the bound passes the claim.
	Violation bool    `json:"violation"`
	Seconds   float64 `json:"seconds"`
}

// Verdict is the result in words.
func (r Result) Verdict() string {
	if r.Violation {
		return fmt.Sprintf("VIOLATION: epsilon is at least %.3f, the ledger claims %.3f",
			r.LowerBound.Epsilon, r.Epsilon)
	}
	return "no violation seen"
}

// Violated is an error that names the cases whose bound passes the claim.
func Violated(results []Result) error {
	var names []string
	for _, r := range results {
		if r.Violation {
			names = append(names, r.Case)
		}
	}
	if names == nil {
		return nil
	}
	return fmt.Errorf("the privacy claim does not hold for %s: the releases tell neighbouring datasets apart better "+
		"than the ledger allows; release nothing with this program, and report it", strings.Join(names, ", "))
}

// judge compares what the trials prove with what the ledger's events claim.
func judge(trials [2][]float64, events []privacy.Event, delta, confidence float64) (Result, error) {
	claim, err := privacy.Account(events, delta)
	if err != nil {
		return Result{}, fmt.Errorf("account for the events of a run: %w", err)
	}
	bound, err := LowerBound(trials, delta, confidence)
	if err != nil {
		return Result{}, err
	}
	return Result{
		Events: events, Runs: min(len(trials[0]), len(trials[1])),
		Epsilon: claim.Epsilon, Delta: delta, Accountant: claim.Accountant,
		LowerBound: bound, Confidence: confidence, Violation: bound.Epsilon > claim.Epsilon,
	}, nil
}
