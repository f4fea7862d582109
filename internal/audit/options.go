package audit

import (
	"errors"

	"github.com/conclave-dp/conclave/internal/aggregator"
	"github.com/conclave-dp/conclave/internal/config"
	"github.com/conclave-dp/conclave/internal/privacy"
)

// Options say what is audited and with how many runs.
type Options struct {
	// Cases are names of [Cases]; see [Select].
	Cases []string
	// Runs is the number of runs of each case in each of the two worlds.
	Runs int
	// Epsilon and Delta are the budget of one run, which is spent completely. Violations show best at an epsilon
	// of 1 to 3 and a delta that is not small: an event that happens in one of a million runs does not show in a
	// thousand.
	Epsilon, Delta float64
	// Confidence is the confidence of each lower bound.
	Confidence float64
	// Parallel is the number of runs at the same time.
	Parallel int
	// Dir is where the cluster stores its state in a temporary folder; empty means the system's folder for
	// temporary files.
	Dir string
	// Aggregator holds the options of the aggregator under test.
	Aggregator aggregator.Options
	// Watch is called with the number of a case's finished runs, one call at a time. May be nil.
	Watch func(name string, done, total int)
}

// DefaultOptions audit everything with a thousand runs in each world.
func DefaultOptions() Options {
	return Options{Cases: Cases(), Runs: 1000, Epsilon: 2, Delta: 0.2, Confidence: 0.999, Parallel: 32}
}

// The limits keep counts and budgets small; a test outside them shows nothing.
const (
	minEpsilon, maxEpsilon = 0.01, 20
	maxDelta               = 0.3
	maxRuns                = 1 << 20
)

// Validate reports all invalid fields.
func (o Options) Validate() error {
	var errs config.Problems
	need := errs.Need
	need(o.Runs >= MinRuns && o.Runs <= maxRuns, "runs is %d; use %d to %d, and at least a thousand to detect errors",
		o.Runs, MinRuns, maxRuns)
	need(o.Epsilon >= minEpsilon && o.Epsilon <= maxEpsilon, "epsilon is %v; use %v to %v",
		o.Epsilon, minEpsilon, maxEpsilon)
	need(o.Delta > 0 && o.Delta <= maxDelta, "delta is %v; it must be above 0 and at most %v", o.Delta, maxDelta)
	need(o.Confidence > 0.5 && o.Confidence < 1, "confidence is %v; it must be above 0.5 and below 1", o.Confidence)
	need(o.Parallel >= 1, "parallel is %d; use at least 1", o.Parallel)
	return errors.Join(errs...)
}

func (o Options) budget() privacy.Budget {
	return privacy.Budget{Epsilon: o.Epsilon, Delta: o.Delta}
}
