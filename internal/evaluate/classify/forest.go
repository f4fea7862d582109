package classify

import "math"

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
