package audit

import (
	"fmt"
	"strings"

	"github.com/conclave-dp/conclave/internal/privacy"
)

// Result is the result of the audit of one case.
type Result struct {
	// Case is one of [Cases]; Mechanism is the kind of its events.
	Case string `json:"case"`
	// View is the part of a masked run that was examined; it is empty if the releases of a run without masks were
	// examined.
	View      View         `json:"view,omitempty"`
	Mechanism privacy.Kind `json:"mechanism"`
	// Events are the cost of one run as in its ledger, with every question of a Confident-GNMax counted as
	// answered: this is what the budget's filter reserved before the run was asked.
	Events []privacy.Event `json:"events"`
	// Rounds and Queries are the numbers for one run.
	Rounds  int `json:"rounds"`
	Queries int `json:"queries"`
	// Runs is the number of runs in each of the two worlds.
	Runs int `json:"runs"`
	// Epsilon is the claim for one run at Delta, proven for Events by Accountant. For answers under masks it is
	// zero at a delta of zero, and the accountant is [AccountantMasks].
	Epsilon    float64 `json:"epsilon"`
	Delta      float64 `json:"delta"`
	Accountant string  `json:"accountant"`
	// LowerBound holds the epsilon that the trials prove.
	LowerBound Bound `json:"lower_bound"`
	// Confidence is the confidence of LowerBound: one minus the probability that a program that keeps its claim is
	// reported as a violation.
	Confidence float64 `json:"confidence"`
	// Violation says that the bound exceeds the claim.
	Violation bool    `json:"violation"`
	Seconds   float64 `json:"seconds"`
}

// AccountantMasks says that a claim does not rest on the events: masked answers show nothing.
const AccountantMasks = "masks"

// Name is the name of the case and its view.
func (r Result) Name() string {
	if r.View == "" {
		return r.Case
	}
	return r.Case + "-" + string(r.View)
}

// Verdict is the result in words.
func (r Result) Verdict() string {
	if r.Violation {
		claims := "the ledger claims"
		if r.Accountant == AccountantMasks {
			claims = "masks claim"
		}
		return fmt.Sprintf("VIOLATION: epsilon is at least %.3f, %s %.3f", r.LowerBound.Epsilon, claims, r.Epsilon)
	}
	return "no violation seen"
}

// Violated is an error that names the cases whose bound exceeds the claim.
func Violated(results []Result) error {
	var names []string
	for _, r := range results {
		if r.Violation {
			names = append(names, r.Name())
		}
	}
	if names == nil {
		return nil
	}
	return fmt.Errorf("the privacy claim is violated for %s: the releases distinguish neighbouring datasets better "+
		"than claimed; release nothing with this program, and report this", strings.Join(names, ", "))
}

// judge compares what the trials of a view prove with the claim: that of the ledger's events, or that nothing
// shows.
func judge(trials [2][]float64, events []privacy.Event, v View, o Options) (Result, error) {
	claim := privacy.Price{Accountant: AccountantMasks}
	if v != ViewAnswers {
		var err error
		if claim, err = privacy.Account(events, o.Delta); err != nil {
			return Result{}, fmt.Errorf("account for the events of a run: %w", err)
		}
	}
	bound, err := LowerBound(trials, claim.Delta, o.Confidence)
	if err != nil {
		return Result{}, err
	}
	return Result{
		View: v, Events: events, Runs: min(len(trials[0]), len(trials[1])),
		Epsilon: claim.Epsilon, Delta: claim.Delta, Accountant: claim.Accountant,
		LowerBound: bound, Confidence: o.Confidence, Violation: bound.Epsilon > claim.Epsilon,
	}, nil
}
