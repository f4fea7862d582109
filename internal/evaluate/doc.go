// Package evaluate compares synthetic rows with real ones.
//
//	e, err := evaluate.Evaluate(ctx, evaluate.Input{Synthetic: rows, Test: test, Train: train})
//
// An [Evaluation] holds the measurements and says what could not be measured: how well classifiers learn from
// the rows (the settings of the PATE-GAN paper), whether models and columns rank alike, how similar
// distributions are, whether rows can be told apart, and whether training rows were memorized. Package images
// does so for images. The Compare functions measure one thing each.
//
// Everything here that reads a real table is computed without noise. It has no privacy guarantee, may not leave
// the site, and must be marked NOT PRIVATE wherever it is shown. Rows without signs of memorization are no
// proof of privacy: the certificate is.
//
// The classifiers are in package classify, the figures in package measure. The same rows give the same figures
// for any GOMAXPROCS.
package evaluate
