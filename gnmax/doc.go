// Package gnmax adds exact noise to private counts and decides votes with it.
//
// Start with [NewSource] and one of the mechanisms [NewGNMax], [NewConfident]
// and [NewLNMax]; [LaplaceCounts] is for counts that are not votes. A mechanism
// answers one query from one histogram of votes, and names the events of
// package privacy that the answer costs.
//
// # Exact
//
// Noise is drawn from the discrete Gaussian and the discrete Laplace
// distribution by rejection over integers (Canonne, Kamath, Steinke 2020,
// Algorithms 1 to 3), with random bits of crypto/rand. Every decision compares
// integers with integers: no floating-point number, and none of the attacks on
// floating-point noise (Mironov 2012), has a part in it. Parameters given as
// float64 are replaced by fractions on the safe side: a little more noise,
// never less, by less than one part in 10^7.
//
// # The charge for discrete Gaussian noise
//
// The ledger charges for continuous Gaussian noise of standard deviation sigma,
// because its composition is known exactly. The noise drawn is the discrete
// Gaussian of variance sigma² + 1/8, and moving it by a whole number d is never
// easier to see than moving N(0, sigma²) by d. Why:
//
// Let Q(m) = P[X >= m] and z(m) the normal quantile with P[N(0,1) > z(m)] =
// Q(m). The likelihood ratio of X and X+1 is monotone, so the best tests
// between them are thresholds, and their mixtures: the trade-off function is a
// polygon whose corners have the false alarm rate Q(m) and the power Q(m-1). A
// corner lies on or above the trade-off curve of mu-GDP when z(m) - z(m-1) <=
// mu, and then so do the edges, because that curve is convex. By telescoping, a
// move by d satisfies d times mu. So the claim is
//
//	sup over m of z(m) - z(m-1)  <=  1/sigma.
//
// With s² the variance parameter, the centre has z(m) - z(m-1) about
// (1 + 1/(24 s²))/s and the far tail (m about 4.5 s²) about (1 + 0.025/s²)/s.
// As 1/sqrt(s² - 1/8) is (1 + 1/(16 s²))/s and more, 1/8 covers both with room.
// A test computes the supremum for sigma from 1 to 300 and far into the tail.
// Smaller sigma are refused. Since each release is 1/sigma-GDP per unit moved,
// Gaussian DP composes them like continuous ones, adaptively too.
//
// # What it does not promise
//
// Rejection sampling takes a time that depends on the noise. Who can time
// single draws learns something of the noise; a round of many queries over a
// network hides most of that, and nothing here hides the rest. Memory that
// held random bytes is not wiped.
package gnmax
