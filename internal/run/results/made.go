package results

import (
	"github.com/conclave-dp/conclave/partition"
)

// Made are the rows of a release.
type Made struct {
	Table *partition.Table
	// Unweighted are the rows before they had weights, or were drawn by them.
	Unweighted *partition.Table
	// Before are the rows before the stages and between them.
	Before []Snapshot
	// Weights has a weight for each row; nil for none.
	Weights []float64
	// Notes say what the stages did, for the report.
	Notes []string
}
