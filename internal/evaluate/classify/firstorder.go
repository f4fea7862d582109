package classify

import (
	"cmp"
	"fmt"
	"math"

	"github.com/conclave-dp/conclave/internal/evaluate/classify/trees"
)

// FirstOrderOptions are the settings of first-order gradient boosting. Zero means
// the default.
type FirstOrderOptions struct {
	Trees        int     // default 100
	Depth        int     // of a tree, at most; default 3
	LearningRate float64 // default 0.1
}

// FirstOrderBoosting is Friedman's gradient boosting machine (Friedman 2001,
// algorithm 5): each tree is a least squares fit to the residuals, the negative
// gradient of the logistic loss, and only the values of its leaves are one Newton
// step of a line search. It is GradientBoostingClassifier of scikit-learn,
// with splits between any two values of a feature, up to 65,536 of them. Where a class is
// rare (the credit card frauds) these single out few rows: an AUROC of 0.949, with 256
// bins it would be 0.986.
type FirstOrderBoosting struct {
	options FirstOrderOptions
	columns int
	prior   float64 // log odds before the first tree
	trees   []trees.Tree
	gains   []float64
}

// NewFirstOrderBoosting returns first-order gradient boosting. Nothing about it is
// random: there is no subsampling and no early stopping.
func NewFirstOrderBoosting(o FirstOrderOptions) *FirstOrderBoosting {
	return &FirstOrderBoosting{options: FirstOrderOptions{
		Trees: cmp.Or(o.Trees, 100), Depth: cmp.Or(o.Depth, 3), LearningRate: cmp.Or(o.LearningRate, 0.1),
	}}
}

// Name is "first-order gradient boosting".
func (*FirstOrderBoosting) Name() string { return "first-order gradient boosting" }

func (o FirstOrderOptions) check() error {
	switch {
	case o.Trees < 1:
		return fmt.Errorf("%d trees: at least 1 is needed", o.Trees)
	case o.Depth < 1:
		return fmt.Errorf("depth %d: at least 1 is needed", o.Depth)
	case !(o.LearningRate > 0) || math.IsInf(o.LearningRate, 0):
		return fmt.Errorf("learning rate %v: it must be positive and finite", o.LearningRate)
	}
	return nil
}

// Fit grows the trees.
func (b *FirstOrderBoosting) Fit(r Rows) error {
	if err := b.options.check(); err != nil {
		return fmt.Errorf("first-order gradient boosting: %w", err)
	}
	t, err := r.prepare()
	if err != nil {
		return fmt.Errorf("first-order gradient boosting: %w", err)
	}
	b.prior, b.columns = t.logOdds(), t.x.Cols
	b.trees, b.gains = make([]trees.Tree, 0, b.options.Trees), make([]float64, t.x.Cols)

	logOdds := make([]float64, t.x.Rows)
	for i := range logOdds {
		logOdds[i] = b.prior
	}
	residual := make([]float64, t.x.Rows)
	g := trees.NewDepthFirst(t.binned(trees.Most), residual, t.weight)
	g.Depth = b.options.Depth
	g.Leaf = func(rows []int32) float64 {
		slope, curve := 0.0, 0.0
		for _, i := range rows {
			p := t.label[i] - residual[i]
			slope += t.weight[i] * residual[i]
			curve += t.weight[i] * (p * (1 - p))
		}
		if curve < 1e-150 { // as in scikit-learn: certain already
			return 0
		}
		value := b.options.LearningRate * slope / curve
		for _, i := range rows {
			logOdds[i] += value
		}
		return value
	}
	for range b.options.Trees {
		for i, z := range logOdds {
			residual[i] = t.label[i] - sigmoid(z)
		}
		b.trees = append(b.trees, g.Grow(trees.AllRows(t.x.Rows)))
		for j, gain := range g.Gains {
			b.gains[j] += gain
		}
	}
	return nil
}

// Score gives the log odds of the positive class.
func (b *FirstOrderBoosting) Score(x Matrix) ([]float64, error) {
	if err := checkScoring(b.columns, x); err != nil {
		return nil, fmt.Errorf("first-order gradient boosting: %w", err)
	}
	return trees.Sum(b.prior, b.trees, x.Data, x.Cols), nil
}

// Importances gives each feature's share of the fall of the sum of squares of the
// residuals, over all trees.
func (b *FirstOrderBoosting) Importances() []float64 {
	if b.columns == 0 {
		return nil
	}
	return trees.Shares(b.gains)
}
