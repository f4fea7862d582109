// Package teachers answers the questions of PATE-GAN and G-PATE. A site's records are divided
// among its teachers once; each teacher learns to tell its own from generated ones, round by
// round, and is asked about generated records: [Votes] of real or fake, [GradientVotes] on the
// bins of its gradients, or a [GradientSum].
//
// Why a privacy unit moves an answer by a bounded part: all its records are with one teacher,
// so that it changes one vote on each query, or one teacher's vector, whose L2 norm is bounded.
// Nothing else of a teacher leaves. Rounds are public, and so is what follows from them alone.
package teachers
