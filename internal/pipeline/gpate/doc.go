// Package gpate is the student of G-PATE (Long et al., NeurIPS 2021). The gradient of a teacher's loss with
// respect to a generated record tells which way to move the record. The releases of many teachers' gradients
// move the generator.
//
// Start with [New] and call [Trainer.Run] with an [Oracle].
//
// [Options] selects how gradients are released: the paper's votes on the bins of random projections, the noisy
// histograms of these votes, or the noisy sum of the teachers' clipped gradients. Everything the student does
// with a release is post-processing and costs nothing.
//
// The seed need not give the same generator on another kind of machine. Training need not converge: if the
// noise is too large, a run learns nothing. The report shows this beside coin flips.
package gpate
