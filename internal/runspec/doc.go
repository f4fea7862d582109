// Package runspec reads and writes the plan of a run as it travels in a
// conclavev1.RunSpec. Every role reads it by [Plan], so that the aggregator, the
// nodes and the student see the same plan and price it alike.
package runspec
