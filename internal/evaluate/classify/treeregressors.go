package classify

import (
	"fmt"

	"github.com/conclave-dp/conclave/internal/evaluate/classify/trees"
)

// ForestRegression is the mean of regression trees without limit on bootstrap samples,
// all features tried at each split: RandomForestRegressor of scikit-learn with 100
// trees, over features sorted into at most 256 bins. For weights see [Bagging].
type ForestRegression struct {
	trees       bagged
	mean, scale float64
}

// NewForestRegression returns a forest. Its result depends on nothing but the rows and the
// seed.
func NewForestRegression(o BaggingOptions) *ForestRegression {
	return &ForestRegression{trees: bagged{
		name: "random forest", options: o.withDefaults(100),
		// All, but in random order: of few rows most splits gain the same, and trees that
		// all took the first column would be too much alike.
		tried: func(columns int) int { return columns },
	}}
}

// Name is "random forest".
func (f *ForestRegression) Name() string { return f.trees.name }

// Fit grows the trees.
func (f *ForestRegression) Fit(t Targets) error {
	n, err := t.prepare()
	if err != nil {
		return fmt.Errorf("%s: %w", f.trees.name, err)
	}
	f.mean, f.scale = n.mean, n.scale
	return f.trees.fit(n.training, 0) // of a sample without rows: the mean
}

// Predict gives the mean over the trees of the row's leaves.
func (f *ForestRegression) Predict(x Matrix) ([]float64, error) {
	values, err := f.trees.Score(x)
	if err != nil {
		return nil, err
	}
	return unscaled(values, f.mean, f.scale), nil
}

// BoostingRegression is Friedman's gradient boosting for the squared loss (Friedman 2001,
// algorithm 2): GradientBoostingRegressor of scikit-learn, with splits between any two
// values of a feature, up to 65,536 of them.
type BoostingRegression struct {
	options     FirstOrderOptions
	columns     int
	trees       []trees.Tree
	mean, scale float64
}

// NewBoostingRegression returns gradient boosting. Nothing about it is random.
func NewBoostingRegression(o FirstOrderOptions) *BoostingRegression {
	return &BoostingRegression{options: NewFirstOrderBoosting(o).options}
}

// Name is "gradient boosting".
func (*BoostingRegression) Name() string { return "gradient boosting" }

// Fit grows the trees.
func (b *BoostingRegression) Fit(t Targets) error {
	if err := b.options.check(); err != nil {
		return fmt.Errorf("gradient boosting: %w", err)
	}
	n, err := t.prepare()
	if err != nil {
		return fmt.Errorf("gradient boosting: %w", err)
	}
	b.mean, b.scale, b.columns, b.trees = n.mean, n.scale, n.x.Cols, nil
	residual := append([]float64(nil), n.label...)
	g := trees.NewDepthFirst(n.training.binned(trees.Most), residual, n.weight)
	g.Depth = b.options.Depth
	for range b.options.Trees {
		grown := g.Grow(trees.AllRows(n.x.Rows))
		for k := range grown {
			grown[k].Leaf *= b.options.LearningRate
		}
		for i := range residual {
			residual[i] -= grown.Value(n.x.Row(i))
		}
		b.trees = append(b.trees, grown)
	}
	return nil
}

// Predict adds up the trees.
func (b *BoostingRegression) Predict(x Matrix) ([]float64, error) {
	if err := checkScoring(b.columns, x); err != nil {
		return nil, fmt.Errorf("gradient boosting: %w", err)
	}
	return unscaled(trees.Sum(0, b.trees, x.Data, x.Cols), b.mean, b.scale), nil
}
