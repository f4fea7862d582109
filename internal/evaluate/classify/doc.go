// Package classify holds the classifiers that synthetic tables are measured with:
// trained on one table, they rank the rows of another.
//
//	model := classify.Models()[0]
//	err := model.Fit(classify.Rows{X: x, Positive: positive})
//	scores, err := model.Score(test)
//
// They are yardsticks with fixed settings, not tuned predictors, and follow the
// definitions of scikit-learn as far as their documentation says. Models are the
// two that are used by default, All are the twelve of the PATE-GAN paper (Jordon,
// Yoon, van der Schaar 2019). The same rows in the same order give the same
// figures on the same machine, whatever the number of processors; models that
// draw random numbers have a fixed seed.
//
// Regressors are four of them for numbers.
//
// Trees are grown on features sorted into at most 256 bins, of first-order boosting
// 65,536. Up to as many distinct values of a feature, that changes nothing.
package classify
