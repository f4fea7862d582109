package classify

import "github.com/conclave-dp/conclave/internal/evaluate/classify/trees"

// DecisionTree is one classification tree (Breiman, Friedman, Olshen and Stone 1984) split by Gini impurity,
// over features sorted into at most 256 bins, until its leaves are pure. leaf is the smallest number of rows in
// a leaf, whatever their weights. It is DecisionTreeClassifier of scikit-learn; among splits with equal gain it
// takes the first feature, not a random one. Scores are shares of positive rows, by weight.
func DecisionTree(leaf int) *Classifier { return decisionTree(0, leaf) }

// decisionTree has at most depth levels of splits; 0 means no limit.
func decisionTree(depth, leaf int) *Classifier {
	return classifier("decision tree", 0.5, func(t training) (scorer, error) {
		g := trees.NewDepthFirst(t.binned(trees.Usual), t.label, t.weight)
		g.Depth, g.LeafRows = depth, float64(leaf)
		return sumOf(0, []trees.Tree{g.Grow(trees.AllRows(t.x.Rows))}), nil
	})
}

// sumOf adds up the values of trees for each row.
func sumOf(start float64, grown []trees.Tree) scorer {
	return func(x Matrix) []float64 { return trees.Sum(start, grown, x.Data, x.Cols) }
}
