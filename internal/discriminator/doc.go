// Package discriminator is the network of DPGAN that scores records: high for real.
// Student and nodes make the same one of a [Spec], so that only its weights travel: the
// student moves generated records by its slope, nodes take its gradients on real ones.
//
// Start with [New]. It knows nothing of privacy: clipping is that of package nn, noise the
// aggregator's.
package discriminator
