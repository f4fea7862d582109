package classify

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/conclave-dp/conclave/internal/evaluate/classify/trees"
)

// BaggingOptions are the settings of bagging and random forests. Zero means the
// default.
type BaggingOptions struct {
	Trees int    // default 10, of a forest 100
	Seed  uint64 // default 1
}

// Bagging is the mean of decision trees without limit, each grown on a bootstrap
// sample (Breiman 1996): BaggingClassifier of scikit-learn.
//
// A row is in a sample as often as a Poisson number with its weight as mean
// says, which for many rows is the bootstrap (Chamandy et al. 2012). So a row of
// weight 2 is the same in distribution as the row twice, though not draw by draw.
// Weights whose mean is below 1 are scaled to a mean of 1, as samples would be
// too small otherwise.
type Bagging struct{ bagged }

// NewBagging returns bagging of decision trees. Its result depends on nothing but
// the rows and the seed.
func NewBagging(o BaggingOptions) *Bagging {
	return &Bagging{bagged{name: "bagging", options: o.withDefaults(10)}}
}

func (o BaggingOptions) withDefaults(trees int) BaggingOptions {
	return BaggingOptions{Trees: cmp.Or(o.Trees, trees), Seed: cmp.Or(o.Seed, 1)}
}

// bagged are trees on bootstrap samples.
type bagged struct {
	name    string
	options BaggingOptions
	// tried says how many of so many columns are tried at a node; nil is all.
	tried func(columns int) int

	columns int
	trees   []trees.Tree
	gains   [][]float64 // per tree, shares per column
}

// Name is that of the kind of model.
func (b *bagged) Name() string { return b.name }

// Fit grows the trees, on as many processors as there are; the result does not
// depend on their number.
func (b *bagged) Fit(r Rows) error {
	t, err := r.prepare()
	if err != nil {
		return fmt.Errorf("%s: %w", b.name, err)
	}
	return b.fit(t, t.pos/t.total)
}

// fit grows trees for the labels; prior is the value where a sample has no rows.
func (b *bagged) fit(t training, prior float64) error {
	if b.options.Trees < 1 {
		return fmt.Errorf("%s: %d trees: at least 1 is needed", b.name, b.options.Trees)
	}
	data := t.binned(trees.Usual)
	scale := math.Max(1, float64(t.x.Rows)/t.total)
	b.columns = t.x.Cols
	b.trees, b.gains = make([]trees.Tree, b.options.Trees), make([][]float64, b.options.Trees)
	trees.Parallel(b.options.Trees, func() func(int) {
		weight := make([]float64, t.x.Rows)
		rows := make([]int32, 0, t.x.Rows)
		g := trees.NewDepthFirst(data, t.label, weight)
		return func(k int) {
			source := rand.NewPCG(b.options.Seed, uint64(k))
			rows = rows[:0]
			for i, w := range t.weight {
				weight[i] = times(w*scale, source)
				if weight[i] > 0 {
					rows = append(rows, int32(i))
				}
			}
			if len(rows) == 0 {
				b.trees[k], b.gains[k] = trees.Tree{{Leaf: prior}}, make([]float64, t.x.Cols)
				return
			}
			if b.tried != nil {
				g.Tried, g.Random = b.tried(t.x.Cols), rand.New(source)
			}
			b.trees[k] = g.Grow(rows)
			b.gains[k] = trees.Shares(g.Gains)
		}
	})
	return nil
}

// times draws how often a row is in a sample.
func times(mean float64, source rand.Source) float64 {
	if mean > 1e6 {
		return mean // to within a part in a thousand
	}
	return distuv.Poisson{Lambda: mean, Src: source}.Rand()
}

// Score gives the mean over the trees of the share of positive rows in the row's
// leaf.
func (b *bagged) Score(x Matrix) ([]float64, error) {
	if err := checkScoring(b.columns, x); err != nil {
		return nil, fmt.Errorf("%s: %w", b.name, err)
	}
	scores := trees.Sum(0, b.trees, x.Data, x.Cols)
	for i := range scores {
		scores[i] /= float64(len(b.trees))
	}
	return scores, nil
}

// Importances gives each feature's share of the fall of impurity, the mean over
// the trees.
func (b *bagged) Importances() []float64 {
	if b.columns == 0 {
		return nil
	}
	sum := make([]float64, b.columns)
	for _, gains := range b.gains {
		for j, g := range gains {
			sum[j] += g
		}
	}
	return trees.Shares(sum)
}

// RandomForest is bagging of decision trees that try a random selection of the
// features at each split, as many as the root of their number (Breiman 2001):
// RandomForestClassifier of scikit-learn with 100 trees. For weights see
// [Bagging].
type RandomForest struct{ bagged }

// NewRandomForest returns a random forest. Its result depends on nothing but the
// rows and the seed.
func NewRandomForest(o BaggingOptions) *RandomForest {
	return &RandomForest{bagged{
		name: "random forest", options: o.withDefaults(100),
		tried: func(columns int) int { return int(math.Sqrt(float64(columns))) },
	}}
}
