// Package dpgan is the student of DPGAN (Xie et al. 2018; Bie, Kamath and Zhang, "Private
// GANs, revisited", 2023): one discriminator is trained on the records of all sites by the
// noisy sum of their clipped gradients (DP-SGD, Abadi et al. 2016), the generator against
// it.
//
// Start with [New] and call [Trainer.Run] with an [Oracle].
//
// A round is a step of the discriminator: its weights go out, a noisy gradient comes back.
// The gradient on generated records is computed here and needs no noise. Everything the
// generator does is post-processing and costs nothing.
//
// It does not promise that the seed gives the same generator on machines of another
// kind, nor that it converges: a run whose noise is too large learns nothing, and the
// report beside the same run without records shows it.
package dpgan
