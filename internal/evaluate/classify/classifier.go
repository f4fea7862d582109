package classify

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Classifier tells positive from negative rows. Fit forgets what was learned
// before. Score gives one number per row, higher meaning more likely positive;
// it fails before Fit and for another number of columns. A classifier is not safe
// for concurrent use.
//
// Fit reports [measure.ErrOneClass] when the rows of weight above 0 hold one
// class only, and [ErrWeight] for weights that it cannot use.
type Classifier interface {
	Name() string
	Fit(r Rows) error
	Score(x Matrix) ([]float64, error)
}

// Importance is what classifiers have besides that can say how much each feature
// counts. Importances gives one number of at least 0 per column, nil before
// Fit: shares of the gain in purity that sum to 1 (or are all 0 where nothing
// was split) for trees, absolute coefficients per standard deviation of the
// training rows for linear models. Only their order compares across models.
type Importance interface {
	Importances() []float64
}

// Models returns the yardsticks used by default: one linear model and one that
// is not.
func Models() []Classifier {
	return []Classifier{NewLogistic(1), NewBoosting(BoostingOptions{})}
}

// All returns the twelve classifiers of the PATE-GAN paper (Jordon, Yoon, van der
// Schaar 2019), in its order, new ones at each call. Boosting stands for its
// XGBoost. Settings are scikit-learn's defaults where nothing else is said.
func All() []Classifier {
	return []Classifier{
		NewLogistic(1),
		NewRandomForest(BaggingOptions{}),
		NewGaussianBayes(),
		NewBernoulliBayes(),
		NewLinearSVM(1),
		NewDecisionTree(TreeOptions{}),
		NewDiscriminant(),
		NewAdaBoost(50),
		NewBagging(BaggingOptions{}),
		NewFirstOrderBoosting(FirstOrderOptions{}),
		NewMLP(MLPOptions{}),
		NewBoosting(BoostingOptions{}),
	}
}

// ErrUnknown says that there is no classifier of a name.
var ErrUnknown = errors.New("no such classifier")

// Named returns the classifiers of All with these names, in the order of the names.
// It fails with ErrUnknown, and lists the names there are, and for a name that
// is given twice.
func Named(names ...string) ([]Classifier, error) {
	all := All()
	var known, seen []string
	for _, c := range all {
		known = append(known, c.Name())
	}
	var chosen []Classifier
	for _, name := range names {
		k := slices.Index(known, name)
		if k < 0 {
			return nil, fmt.Errorf("%w: %q: use any of %s", ErrUnknown, name, strings.Join(known, ", "))
		}
		if slices.Contains(seen, name) {
			return nil, fmt.Errorf("classifier %q is named twice: name it once", name)
		}
		seen = append(seen, name)
		chosen = append(chosen, all[k])
	}
	return chosen, nil
}

// Threshold is the score above which a classifier calls a row positive, which stands for
// a probability of one half: 0.5 of models whose scores are shares or probabilities, and
// 0 of those that give log odds or distances from a boundary.
func Threshold(c Classifier) float64 {
	if t, ok := c.(interface{ threshold() float64 }); ok {
		return t.threshold()
	}
	return 0
}

func (*Logistic) threshold() float64     { return 0.5 }
func (*DecisionTree) threshold() float64 { return 0.5 }
func (*bagged) threshold() float64       { return 0.5 }

var errNotFitted = errors.New("the model has not been fitted: call Fit first")

// checkScoring refuses rows that a model of so many columns cannot score.
func checkScoring(columns int, x Matrix) error {
	if columns == 0 {
		return errNotFitted
	}
	if err := x.check(); err != nil {
		return err
	}
	if x.Cols != columns {
		return fmt.Errorf("fitted to %d columns, asked about %d", columns, x.Cols)
	}
	return nil
}

// sigmoid is the logistic function; it does not overflow at either end.
func sigmoid(z float64) float64 {
	if z >= 0 {
		return 1 / (1 + math.Exp(-z))
	}
	e := math.Exp(z)
	return e / (1 + e)
}

// softplus is log(1+exp(z)) without overflow.
func softplus(z float64) float64 {
	return math.Max(z, 0) + math.Log1p(math.Exp(-math.Abs(z)))
}
