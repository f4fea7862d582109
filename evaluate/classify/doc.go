// Package classify holds the classifiers that synthetic tables are measured with:
// trained on one table, they rank the rows of another.
//
//	model := classify.NewLogistic(1)
//	err := model.Fit(x, positive)
//	scores, err := model.Score(test)
//
// They are yardsticks with fixed settings, not tuned predictors, and follow the
// definitions of scikit-learn as far as their documentation says. The same rows
// in the same order give the same figures on the same machine.
package classify
