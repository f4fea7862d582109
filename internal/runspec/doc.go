// Package runspec reads and writes the plan of a run in a conclavev1.RunSpec. Every role reads it with [Plan],
// so that the aggregator, the nodes and the student see the same plan and compute the same price.
package runspec
