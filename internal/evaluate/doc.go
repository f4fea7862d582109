// Package evaluate measures how good synthetic rows are beside real ones.
//
//	e, err := evaluate.Evaluate(ctx, evaluate.Input{Synthetic: rows, Test: test, Train: train})
//
// An [Evaluation] holds what could be measured and says what could not: how well
// classifiers learn from the rows (the settings of the PATE-GAN paper), whether
// models and columns rank alike, how alike distributions are, whether rows can be
// told apart, and whether training rows were remembered. Package images does so for images.
// The Compare functions measure one thing each.
//
// Everything here that touches a real table is computed without noise. It has
// no privacy guarantee, may not leave the site, and must be marked NOT PRIVATE
// wherever it is shown. That nothing was remembered proves no privacy: the
// certificate does.
//
// The classifiers are in package classify, the figures in package measure. The same
// rows give the same figures, whatever GOMAXPROCS is.
package evaluate
