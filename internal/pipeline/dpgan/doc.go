// Package dpgan is the student of DPGAN (Xie et al. 2018; Bie, Kamath and Zhang, "Private GANs, revisited",
// 2023). One discriminator is trained on the records of all sites by the noisy sum of their clipped gradients
// (DP-SGD, Abadi et al. 2016). The generator is trained against it.
//
// Start with [New] and call [Trainer.Run] with an [Oracle].
//
// A round is a step of the discriminator: its weights go out, a noisy gradient comes back. The student computes
// the gradient on generated records itself, without noise. Everything the generator does is post-processing and
// costs nothing.
//
// The seed need not give the same generator on another kind of machine. Training need not converge: if the
// noise is too large, a run learns nothing. The report shows this, since it also has the same run without
// records.
package dpgan
