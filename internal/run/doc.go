// Package run is a run from its run.yaml to its files: it checks the spec
// against its schema, plans what the budget buys, lets the pipeline learn from the
// aggregator's releases, and writes the synthetic data with everything that
// travels with it.
//
// Start with [Execute]. [NewPlan] says what a run will ask and cost before
// anything is spent.
//
// It runs where the student runs. It reads no training record; a real test
// file, when the spec names one, is read for the report only, and what is
// computed from it is marked NOT PRIVATE.
package run
