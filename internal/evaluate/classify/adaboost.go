package classify

import (
	"math"

	"github.com/conclave-dp/conclave/internal/evaluate/classify/trees"
)

// leastShare keeps the logarithm of a pure leaf's shares finite (scikit-learn uses
// the spacing of floats at 1, too).
const leastShare = 0x1p-52

// adaBoost is Real AdaBoost (Friedman, Hastie and Tibshirani 2000, algorithm 2) of trees with one split.
// AdaBoostClassifier of scikit-learn calls it SAMME.R and uses 50 by default. Scores are sums of half the log
// odds of the row's leaves.
func adaBoost(stumps int) *Classifier {
	return classifier("adaboost", 0, func(t training) (scorer, error) { return sumOf(0, growStumps(t, stumps)), nil })
}

// growStumps stops early if a tree makes no mistake.
func growStumps(t training, stumps int) (grown []trees.Tree) {
	weight := make([]float64, t.x.Rows)
	for i, w := range t.weight {
		weight[i] = w / t.total
	}
	g := trees.NewDepthFirst(t.binned(trees.Usual), t.label, weight)
	g.Depth = 1
	for range stumps {
		stump := g.Grow(trees.AllRows(t.x.Rows))
		for k, n := range stump {
			p := math.Max(n.Leaf, leastShare)
			q := math.Max(1-n.Leaf, leastShare)
			stump[k].Leaf = (math.Log(p) - math.Log(q)) / 2
		}
		grown = append(grown, stump)

		sum, mistakes := 0.0, 0.0
		for i := range weight {
			margin := stump.Value(t.x.Row(i))
			if t.label[i] == 0 {
				margin = -margin
			}
			if margin < 0 {
				mistakes += weight[i]
			}
			weight[i] *= math.Exp(-margin)
			sum += weight[i]
		}
		if mistakes == 0 && len(stump) > 1 {
			break
		}
		for i := range weight {
			// No leaf may weigh nothing.
			weight[i] = math.Max(weight[i]/sum, math.SmallestNonzeroFloat64)
		}
	}
	return grown
}
