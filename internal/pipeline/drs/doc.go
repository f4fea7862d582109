// Package drs is discriminator rejection sampling (Azadi, Olsson, Darrell, Goodfellow and
// Odena, ICLR 2019): of what a generator makes, it keeps what a discriminator finds real, so
// that what is kept comes closer to real records.
//
// A discriminator that tells a generator's records from real ones without error scores them
// D = p_real/(p_real + p_generated); D/(1-D) is then the ratio of the two densities.
// Accepting a record with a probability proportional to it leaves the real distribution. Of
// a discriminator that errs it leaves generated records tilted by what it says, and of
// records that are far more likely real than others it would leave few: a shift accepts
// more, and less exactly.
//
// It costs nothing. Candidates come from a released generator, or from the play of
// [github.com/conclave-dp/conclave/internal/pipeline/pgb], scores from a released discriminator:
// what is accepted is a function of releases and of coins that know no record.
// A discriminator that saw real records without noise must not be used.
//
// Start with [Accept].
package drs
