// Package projection turns gradients of many numbers into a few votes and back (G-PATE: Long et al., NeurIPS
// 2021): a public random matrix projects a gradient to a few directions. Each projected value is clipped and
// assigned to a bin, the vote. The midpoint of the winning bin, projected back, is an estimate of the gradient.
//
//	p, err := projection.New(projection.Spec{Features: 784, Directions: 10, Clip: 1e-4, Bins: 10}, seed)
//	p.Project(projected, gradients, records)
//	p.Discretize(bins, projected)
//	p.Back(estimate, values, records)
//
// The seed determines the matrix, so every role makes the same one and nothing is sent. It is public and protects
// nothing: privacy comes from the noise on the votes.
package projection
