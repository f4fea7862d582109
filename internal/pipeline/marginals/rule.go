package marginals

import (
	"math"

	"github.com/conclave-dp/conclave/internal/labels"
	"github.com/conclave-dp/conclave/internal/privacy"
)

// With many columns, noise hides much of what pairs of them tell of the label. Then a rule that is learned for the
// label alone is worth its price. The borders were chosen by a few tables, which docs/relabel.md names.
const (
	// manyColumns is from how many columns on a table that is not wide may have one. With fewer, pairs tell enough.
	manyColumns = 30
	// enoughRecords is the public number of records below which noise may hide the rule: with 1,000 records of 450
	// columns it did harm.
	enoughRecords = 5000
)

// NeedsRule tells whether rows of the table should get their labels from a rule. It follows from public numbers alone.
func (t *training) NeedsRule(budget privacy.Budget) bool {
	columns := t.widest()
	switch {
	case t.labelPlace() < 0 || t.Records < enoughRecords:
		return false
	case t.isWide(columns):
		return len(t.tied(columns)) >= labels.ManyColumns
	case len(columns) < manyColumns:
		return false
	}
	sigma, err := privacy.GaussianSigma(budget, 1, nil)
	if err != nil {
		return false // the plan reports it
	}
	room := roomFor(float64(t.Records), noiseOf(sigma/math.Sqrt(t.ofPairs()), len(t.pairsOf(columns))))
	return room >= leastCells && room < scoutCells
}
