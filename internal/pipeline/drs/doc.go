// Package drs is discriminator rejection sampling (Azadi, Olsson, Darrell, Goodfellow and Odena, ICLR 2019). It
// accepts the generated records that a discriminator finds real, so that the accepted records come closer to
// real ones.
//
// A discriminator that tells generated records from real ones without error gives the score D = p_real/(p_real
// + p_generated). D/(1-D) is then the ratio of the two densities, and accepting a record with a probability
// proportional to it yields the real distribution. A discriminator that errs yields generated records tilted by
// its score. If some records are far more likely real than others, few would be accepted: a shift accepts more,
// and less exactly.
//
// It costs nothing. Candidates come from a released generator, or from the play of
// [github.com/conclave-dp/conclave/internal/pipeline/pgb]. Scores come from a released discriminator.
// Acceptance depends on releases and on coins that are independent of records. A discriminator that saw real
// records without noise must not be used.
//
// Start with [Accept].
package drs
