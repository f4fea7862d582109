// Package evaluate measures how good a synthetic table is.
//
// Two questions are answered so far. Is it useful: train a classifier on the
// synthetic rows, test it on real ones (TrainTest; setting B of the PATE-GAN
// paper), and set the figure beside the one of the same classifier trained on
// real rows. Does each column look right: compare its distribution with the
// real one (ColumnShape).
//
//	rows, err := evaluate.TrainTest(synthetic, realTest, classify.Models()...)
//
// Everything here that touches a real table is computed without noise. It has
// no privacy guarantee, may not leave the site, and must be marked NOT PRIVATE
// wherever it is shown.
//
// The classifiers are in package classify, the figures in package measure.
package evaluate
