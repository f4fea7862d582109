// Package classify holds the classifiers that measure synthetic tables: trained on one table, they rank the
// rows of another.
//
//	model := classify.Models()[0]
//	err := model.Fit(classify.Rows{X: x, Positive: positive})
//	scores, err := model.Score(test)
//
// They are yardsticks with fixed settings, not tuned predictors, and follow the definitions in scikit-learn's
// documentation. Models are the two defaults, All are the twelve of the PATE-GAN paper (Jordon, Yoon, van der
// Schaar 2019). The same rows in the same order give the same figures on the same machine, for any number of
// processors; models that draw random numbers have a fixed seed.
//
// Regressors are four of them for numbers.
//
// Trees are grown on features sorted into at most 256 bins, and 65,536 for first-order boosting. For a feature
// with no more distinct values than bins this changes nothing.
package classify
