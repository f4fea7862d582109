package classify

import (
	"fmt"

	"github.com/conclave-dp/conclave/internal/evaluate/classify/trees"
)

// TreeOptions are the settings of a decision tree.
type TreeOptions struct {
	Depth int // at most; no limit when 0
	Leaf  int // rows of a leaf, at least, whatever their weights; 1 when 0
}

// DecisionTree is one classification tree (Breiman, Friedman, Olshen and Stone
// 1984) split by Gini impurity, over features sorted into at most 256 bins. With
// no limit it is split until its leaves are pure. It is DecisionTreeClassifier of
// scikit-learn; among splits that gain the same, the feature that comes first
// is taken, not a random one.
type DecisionTree struct {
	options TreeOptions
	columns int
	tree    trees.Tree
	gains   []float64
}

// NewDecisionTree returns a decision tree. Nothing about it is random.
func NewDecisionTree(o TreeOptions) *DecisionTree { return &DecisionTree{options: o} }

// Name is "decision tree".
func (*DecisionTree) Name() string { return "decision tree" }

// Fit grows the tree.
func (d *DecisionTree) Fit(r Rows) error {
	if d.options.Depth < 0 {
		return fmt.Errorf("decision tree: depth %d: want at least 1, or 0 for no limit", d.options.Depth)
	}
	if d.options.Leaf < 0 {
		return fmt.Errorf("decision tree: leaves of %d rows: want at least 1, or 0 for 1", d.options.Leaf)
	}
	t, err := r.prepare()
	if err != nil {
		return fmt.Errorf("decision tree: %w", err)
	}
	g := trees.NewDepthFirst(t.binned(trees.Usual), t.label, t.weight)
	g.Depth, g.LeafRows = d.options.Depth, float64(max(1, d.options.Leaf))
	d.tree = g.Grow(trees.AllRows(t.x.Rows))
	d.columns, d.gains = t.x.Cols, g.Gains
	return nil
}

// Score gives the share of positive rows, by weight, in the row's leaf.
func (d *DecisionTree) Score(x Matrix) ([]float64, error) {
	if err := checkScoring(d.columns, x); err != nil {
		return nil, fmt.Errorf("decision tree: %w", err)
	}
	return trees.Sum(0, []trees.Tree{d.tree}, x.Data, x.Cols), nil
}

// Importances gives each feature's share of the fall of impurity.
func (d *DecisionTree) Importances() []float64 {
	if d.columns == 0 {
		return nil
	}
	return trees.Shares(d.gains)
}
