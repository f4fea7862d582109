package classify

import (
	"fmt"
	"math"

	"github.com/conclave-dp/conclave/internal/evaluate/classify/trees"
)

// leastShare keeps the logarithm of a pure leaf's shares finite (scikit-learn uses
// the spacing of floats at 1, too).
const leastShare = 0x1p-52

// AdaBoost is Real AdaBoost (Friedman, Hastie and Tibshirani 2000, algorithm 2) of
// trees with one split, what AdaBoostClassifier of scikit-learn calls SAMME.R.
type AdaBoost struct {
	stumps  int
	columns int
	trees   []trees.Tree
	gains   []float64
}

// NewAdaBoost returns AdaBoost of so many trees with one split each, at least 1;
// scikit-learn's default is 50.
func NewAdaBoost(stumps int) *AdaBoost { return &AdaBoost{stumps: stumps} }

// Name is "adaboost".
func (*AdaBoost) Name() string { return "adaboost" }

// Fit grows the trees. It ends early where a tree makes no mistake.
func (a *AdaBoost) Fit(r Rows) error {
	if a.stumps < 1 {
		return fmt.Errorf("adaboost: %d trees: at least 1 is needed", a.stumps)
	}
	t, err := r.prepare()
	if err != nil {
		return fmt.Errorf("adaboost: %w", err)
	}
	a.columns, a.trees, a.gains = t.x.Cols, nil, make([]float64, t.x.Cols)
	weight := make([]float64, t.x.Rows)
	for i, w := range t.weight {
		weight[i] = w / t.total
	}
	g := trees.NewDepthFirst(t.binned(trees.Usual), t.label, weight)
	g.Depth = 1
	for range a.stumps {
		stump := g.Grow(trees.AllRows(t.x.Rows))
		for k, n := range stump {
			p := math.Max(n.Leaf, leastShare)
			q := math.Max(1-n.Leaf, leastShare)
			stump[k].Leaf = (math.Log(p) - math.Log(q)) / 2
		}
		a.trees = append(a.trees, stump)
		for j, gain := range trees.Shares(g.Gains) {
			a.gains[j] += gain
		}

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
	return nil
}

// Score gives the sum of half the log odds of the row's leaves.
func (a *AdaBoost) Score(x Matrix) ([]float64, error) {
	if err := checkScoring(a.columns, x); err != nil {
		return nil, fmt.Errorf("adaboost: %w", err)
	}
	return trees.Sum(0, a.trees, x.Data, x.Cols), nil
}

// Importances gives each feature's share of the fall of impurity, the mean over
// the trees.
func (a *AdaBoost) Importances() []float64 {
	if a.columns == 0 {
		return nil
	}
	return trees.Shares(a.gains)
}
