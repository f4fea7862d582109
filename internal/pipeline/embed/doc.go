// Package embed is the student of embedding matching (DP-MERF: Harder, Adamczewski and Park,
// "DP-MERF: Differentially Private Mean Embeddings with Random Features", 2021): it asks one
// question, the noisy sum over all records of a vector of public features, by class, and fits
// a generator whose records have the same means. All that follows the release is
// post-processing and costs nothing.
//
// Start with [New] and [Trainer.Run], or give a [Start] to the student of another pipeline.
//
// It does not promise that what the features do not show is learned: columns that go together
// three by three are seen by random waves only.
package embed
