// Package pategan trains a generator from teachers' votes (PATE-GAN: Jordon, Yoon and van der Schaar, ICLR
// 2019).
//
// In each round the student sends generated records. The teachers train on a part of them and vote on the rest,
// and the student learns from the noisy shares of votes. Start with [New], then [Trainer.Run].
//
// It differs from the paper in these points. None of them changes the cost of a vote:
//
//   - Teachers are class-conditional and see records in units of the round's
//     generated ones, with squares, so that they can tell the mean and the
//     width of a column. By default a teacher calls a query real if its score is
//     above the teacher's own median of the round.
//   - The student's discriminator accumulates. The votes of a round estimate
//     the log-ratio of real to generated records at that time, so they fit the
//     discriminator's change since then. Old labels stay valid while the
//     generator moves, and all of them are used.
//   - The generator follows the tilted distribution: generated times exp of the
//     discriminator's change. Generated records weighted by the tilt represent
//     it, and the generator is fitted to their random features. A generator
//     that climbs the discriminator instead soon makes one kind of record.
//   - The first generator is uniform over the public ranges, and a part of all
//     queries is widened towards it, so that teachers are also asked about regions
//     that the generator does not reach.
//
// The student holds no real record. Its training is post-processing.
package pategan
