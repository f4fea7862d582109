// Package nn has dense and convolutional networks of float32 numbers, and adds up their gradients clipped per
// privacy unit, in whole steps ([ClippedSteps]). Packages below it have ensembles of such networks, losses,
// optimizers, output heads, standardization of columns and the file format.
//
// Data is row-major: a batch of n records with w features is a []float32 of
// length n*w. Nothing here knows what a record means or where it came from.
//
// Start with [NewNetwork]; for teachers see package ensemble.
//
// Training is deterministic: the same seed, inputs and machine kind give the
// same bits, whatever GOMAXPROCS is. The random numbers of this package
// initialize weights and shuffle; they protect nothing and must never be used
// as privacy noise.
package nn
