// Package nn holds the float32 models that Conclave trains: dense networks for
// students, ensembles of many equal models for teachers, and networks of
// convolutions, with the losses, optimizers, output heads, clipping per record or
// privacy unit and file format that they need.
//
// Data is row-major: a batch of n records with w features is a []float32 of
// length n*w. Nothing here knows what a record means or where it came from.
//
// Start with [NewNetwork] for one network and with [NewEnsemble] for teachers.
//
// Training is deterministic: the same seed, inputs and machine kind give the
// same bits, whatever GOMAXPROCS is. The random numbers of this package
// initialize weights and shuffle; they protect nothing and must never be used
// as privacy noise.
package nn
