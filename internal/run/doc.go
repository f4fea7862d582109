// Package run takes a run from its run.yaml to its files: it checks the spec against its schema, plans what the
// budget pays for, lets the pipeline learn from the aggregator's releases, and writes the synthetic data with
// everything that belongs to it.
//
// Start with [Execute]. [NewPlan] says what a run will ask and cost before anything is spent.
//
// It runs at the student. It reads no training record. A real test file, if the spec names one, is read only for the
// report, and figures computed from it are marked NOT PRIVATE.
package run
