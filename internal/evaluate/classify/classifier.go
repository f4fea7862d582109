package classify

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Classifier tells positive from negative rows. It is not safe for concurrent use.
type Classifier struct {
	model
	learn func(training) (scorer, error)
	// threshold is the score above which a row counts as positive, a probability of one half: 0.5 for models whose
	// scores are shares or probabilities, 0 for models that give log odds or distances from a boundary.
	threshold float64
}

func classifier(name string, threshold float64, learn func(training) (scorer, error)) *Classifier {
	return &Classifier{model: model{name: name}, learn: learn, threshold: threshold}
}

// Fit forgets earlier training, and learns from rows. It fails with [measure.ErrOneClass] if the rows of weight
// above 0 have only one class, and with [ErrWeight] for unusable weights.
func (c *Classifier) Fit(r Rows) error { return c.fit(r.prepare, c.learn) }

// Score gives one number per row, higher meaning more likely positive. It fails before
// Fit and for another number of columns.
func (c *Classifier) Score(x Matrix) ([]float64, error) { return c.scores(x) }

// Threshold is the score above which a row is called positive.
func (c *Classifier) Threshold() float64 { return c.threshold }

// Models returns the default yardsticks: one linear model and one nonlinear model.
func Models() []*Classifier { return []*Classifier{logistic(1), boosting()} }

// All returns the twelve classifiers of the PATE-GAN paper (Jordon, Yoon, van der Schaar 2019), in its order, new
// ones at each call. Boosting stands for its XGBoost. Settings are scikit-learn's defaults unless stated
// otherwise.
func All() []*Classifier {
	return []*Classifier{
		logistic(1), randomForest(100, 1), gaussianBayes(), bernoulliBayes(), linearSVM(1), decisionTree(0, 1),
		discriminant(), adaBoost(50), bagging(10, 1), firstOrderBoosting(100), mlp(1), boosting(),
	}
}

// ErrUnknown means that no classifier has a name.
var ErrUnknown = errors.New("unknown classifier")

// Named returns the classifiers of All with these names, in the order of the names. It fails with ErrUnknown,
// and lists the known names. It also fails for a name that is given twice.
func Named(names ...string) ([]*Classifier, error) {
	all := All()
	var known []string
	for _, c := range all {
		known = append(known, c.Name())
	}
	var chosen []*Classifier
	for i, name := range names {
		k := slices.Index(known, name)
		if k < 0 {
			return nil, fmt.Errorf("%w: %q: use any of %s", ErrUnknown, name, strings.Join(known, ", "))
		}
		if slices.Contains(names[:i], name) {
			return nil, fmt.Errorf("classifier %q is named twice: name it once", name)
		}
		chosen = append(chosen, all[k])
	}
	return chosen, nil
}
