// Package embed is the student of embedding matching (DP-MERF: Harder, Adamczewski and Park, "DP-MERF:
// Differentially Private Mean Embeddings with Random Features", 2021). It asks one question: the noisy sum over
// all records of a vector of public features, by class. It then fits a generator whose records have the same
// means. Everything after the release is post-processing and costs nothing.
//
// Start with [New] and [Trainer.Run], or give a [Start] to the student of another pipeline.
//
// The student learns only what the features show. A dependence of three columns at once shows in the random
// waves alone.
package embed
