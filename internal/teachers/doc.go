// Package teachers answers the questions of PATE-GAN and G-PATE. A site's records are divided among its teachers
// once. Each teacher learns, round by round, to distinguish its own records from generated ones, and is asked
// about generated records: [Votes] of real or fake, [GradientVotes] for the bins of its gradients, or a
// [GradientSum].
//
// Why a privacy unit moves an answer by a bounded amount: all its records are with one teacher. It changes one
// vote on each query, or one teacher's vector, whose L2 norm is bounded. Nothing else leaves a teacher. Rounds are
// public, and so is what follows from them alone.
package teachers
