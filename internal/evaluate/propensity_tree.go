package evaluate

import (
	"cmp"
	"fmt"
	"math/rand/v2"

	"github.com/conclave-dp/conclave/internal/evaluate/classify"
	"github.com/conclave-dp/conclave/internal/evaluate/measure"
	"github.com/conclave-dp/conclave/partition"
)

// PropensityTreeOptions are the settings of ComparePropensityTree; zeros are the defaults.
type PropensityTreeOptions struct {
	Leaf         int    // smallest number of rows in a leaf; 5
	Permutations int    // number of fits for the expectation; 50
	Seed         uint64 // of the permutations
}

// ComparePropensityTree is ComparePropensity with a classification tree in place of the logistic regression: it
// also sees joint distributions. There is no formula for its expectation. So it is the mean over fits in which
// the rows' labels, synthetic or real, are permuted and each row keeps its weight (Snoke et al. 2018). R's
// synthpop does the same, with rpart's trees and another stopping rule. RatioOfEqual is 1: the ratio for rows
// of the same distribution. The tree splits by Gini impurity as long as leaves are large enough.
//
// The weights of the synthetic rows, nil for 1 each, are scaled to a mean of 1. It fails as ComparePropensity
// does, and for negative options. NOT PRIVATE.
func ComparePropensityTree(real, synthetic *partition.Table, weight []float64, o PropensityTreeOptions) (
	*Propensity, error) {
	fail := func(err error) (*Propensity, error) { return nil, fmt.Errorf("propensity tree: %w", err) }
	weight, err := checkTables(real, synthetic, weight)
	if err != nil {
		return fail(err)
	}
	if o.Leaf < 0 || o.Permutations < 0 {
		return fail(fmt.Errorf("leaves of %d rows and %d permutations: choose positive numbers, or 0 for the defaults",
			o.Leaf, o.Permutations))
	}
	d := newDesign(real.Schema(), dataColumns(real.Schema()), nil)
	if d.width < 2 {
		return fail(fmt.Errorf("no column holds data"))
	}
	a, b := d.dense(real, false), d.dense(synthetic, false)
	rows := classify.Rows{X: classify.Matrix{Rows: a.Rows + b.Rows, Cols: a.Cols, Data: append(a.Data, b.Data...)}}
	total := measure.Sum(weight)
	for i := range rows.X.Rows {
		rows.Positive = append(rows.Positive, i >= a.Rows)
		w := 1.0
		if i >= a.Rows {
			w = counted(weight[i-a.Rows] * (float64(b.Rows) / total))
		}
		rows.Weight = append(rows.Weight, w)
	}
	leaf := cmp.Or(o.Leaf, 5)
	observed, err := treePMSE(rows, leaf)
	if err != nil {
		return fail(err)
	}
	random := rand.New(rand.NewPCG(o.Seed, 0xca27))
	expected, times := 0.0, cmp.Or(o.Permutations, 50)
	for range times {
		random.Shuffle(len(rows.Positive), func(i, j int) {
			rows.Positive[i], rows.Positive[j] = rows.Positive[j], rows.Positive[i]
		})
		pmse, err := treePMSE(rows, leaf)
		if err != nil {
			return fail(err)
		}
		expected += pmse / float64(times)
	}
	if expected == 0 {
		return fail(fmt.Errorf("no tree could be grown: there are too few rows, or all are the same"))
	}
	return &Propensity{PMSE: observed, Ratio: observed / expected, RatioOfEqual: 1}, nil
}

func treePMSE(rows classify.Rows, leaf int) (float64, error) {
	tree := classify.DecisionTree(leaf)
	if err := tree.Fit(rows); err != nil {
		return 0, err
	}
	scores, err := tree.Score(rows.X)
	if err != nil {
		return 0, err
	}
	for i := range scores {
		scores[i] = max(0, min(scores[i], 1)) // rounding may put a mean of weights outside
	}
	return measure.PMSE(rows.Positive, scores, rows.Weight)
}
