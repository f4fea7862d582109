// Package gpate is the student of G-PATE (Long et al., NeurIPS 2021): teachers tell, in
// the gradient of their loss by a generated record, which way to move it; what is
// released of many teachers' gradients moves the generator.
//
// Start with [New] and call [Trainer.Run] with an [Oracle].
//
// How gradients are released is a choice, see [Options]: the paper's votes on the bins
// of random projections, the noisy histograms of these votes, or the noisy sum of the
// teachers' clipped gradients. Everything the student does with a release is
// post-processing and costs nothing.
//
// It does not promise that the seed gives the same generator on machines of another
// kind, nor that it converges: a run whose noise is too large learns nothing, and the
// report beside coin flips shows it.
package gpate
