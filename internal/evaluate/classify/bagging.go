package classify

import (
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/conclave-dp/conclave/internal/evaluate/classify/trees"
)

// bagging is the mean of decision trees of unlimited depth, each grown on a bootstrap sample (Breiman 1996):
// BaggingClassifier of scikit-learn. Scores are means of the shares of positive rows in the row's leaves.
//
// The number of times that a row is in a sample is a Poisson number whose mean is its weight. For many rows
// this is the bootstrap (Chamandy et al. 2012). So a row of weight 2 has the same distribution as two rows,
// though not the same draws. Weights whose mean is below 1 are scaled to a mean of 1, since samples would be
// too small otherwise.
func bagging(size int, seed uint64) *Classifier {
	return classifier("bagging", 0.5, func(t training) (scorer, error) {
		return meanOf(growBagged(t, size, seed, nil)), nil
	})
}

// randomForest is bagging of decision trees that try a random selection of the features at each split, as many
// as the root of their number (Breiman 2001): RandomForestClassifier of scikit-learn, which has 100 trees by
// default.
func randomForest(size int, seed uint64) *Classifier {
	return classifier("random forest", 0.5, func(t training) (scorer, error) {
		return meanOf(growBagged(t, size, seed, rootOf)), nil
	})
}

func rootOf(columns int) int { return int(math.Sqrt(float64(columns))) }

// forestRegression is the mean of regression trees of unlimited depth on bootstrap samples. All features are
// tried at each split: RandomForestRegressor of scikit-learn with 100 trees, over features sorted into at most
// 256 bins.
func forestRegression(t training) (scorer, error) {
	// All columns, but in random order: with few rows most splits gain the same, and trees that all took the first
	// column would be too similar.
	return meanOf(growBagged(t, 100, 1, func(columns int) int { return columns })), nil
}

// growBagged grows trees on bootstrap samples, on all processors; the result does not depend on their number.
// tried is the number of columns that are tried at a node; nil means all.
func growBagged(t training, size int, seed uint64, tried func(columns int) int) []trees.Tree {
	data := t.binned(trees.Usual)
	scale := math.Max(1, float64(t.x.Rows)/t.total)
	grown := make([]trees.Tree, size)
	trees.Parallel(size, func() func(int) {
		weight := make([]float64, t.x.Rows)
		rows := make([]int32, 0, t.x.Rows)
		g := trees.NewDepthFirst(data, t.label, weight)
		return func(k int) {
			source := rand.NewPCG(seed, uint64(k))
			rows = rows[:0]
			for i, w := range t.weight {
				weight[i] = times(w*scale, source)
				if weight[i] > 0 {
					rows = append(rows, int32(i))
				}
			}
			if len(rows) == 0 {
				grown[k] = trees.Tree{{Leaf: t.prior()}}
				return
			}
			if tried != nil {
				g.Tried, g.Random = tried(t.x.Cols), rand.New(source)
			}
			grown[k] = g.Grow(rows)
		}
	})
	return grown
}

// times draws the number of times that a row is in a sample.
func times(mean float64, source rand.Source) float64 {
	if mean > 1e6 {
		return mean // to within a part in a thousand
	}
	return distuv.Poisson{Lambda: mean, Src: source}.Rand()
}

func meanOf(grown []trees.Tree) scorer {
	sum := sumOf(0, grown)
	return func(x Matrix) []float64 {
		scores := sum(x)
		for i := range scores {
			scores[i] /= float64(len(grown))
		}
		return scores
	}
}
