// Package pategan trains a generator from teachers' votes (PATE-GAN: Jordon,
// Yoon and van der Schaar, ICLR 2019).
//
// Each round the student sends generated records; the teachers train on a part
// of them and vote on the rest; the student learns from the noisy shares of
// votes. Start with [New], then [Trainer.Run].
//
// It differs from the paper in ways that change nothing about the cost of a
// vote:
//
//   - Teachers are class-conditional and see records in units of the round's
//     generated ones, with squares, so that they can tell where a column is and
//     how wide. By default a teacher calls real what it scores above its own
//     median of the round's queries.
//   - The student's discriminator accumulates: the votes of a round estimate
//     the log-ratio of real to generated records at that time, so they fit the
//     discriminator's change since then. Old labels stay true while the
//     generator moves, and all of them are used.
//   - The generator follows the tilted distribution, generated times exp of the
//     discriminator's change: generated records weighted by the tilt stand for
//     it, and the generator is fitted to their random features. A generator
//     that climbs the discriminator instead soon makes one kind of record.
//   - The first generator is uniform over the public ranges, and a part of all
//     queries is widened towards it, so that teachers are also asked where the
//     generator does not go.
//
// The student holds no real record. Its training is post-processing.
package pategan
