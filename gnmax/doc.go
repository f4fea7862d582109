// Package gnmax adds exact noise to private numbers and decides votes with it.
//
// Start with [NewSource] and a mechanism: [NewGNMax], [NewConfident] and [NewLNMax] decide votes, [NewGaussianSum]
// releases sums of bounded vectors (which [Encode] makes), [NewNormGamma] releases short vectors with pure DP, and
// [NewExponential] selects by score. [LaplaceCounts] is for counts other than votes, and for other vectors with a
// bound in the L1 norm. Each comment names the event of package privacy that pays for an answer, and says why that
// is enough.
//
// # Exact
//
// Noise is drawn from the discrete Gaussian and the discrete Laplace distribution by rejection over integers
// (Canonne, Kamath, Steinke 2020, Algorithms 1 to 3; Gaussian noise above some 1,000 from a histogram, see
// gnmax/blocks.go), and norm-Gamma noise from the discrete Laplace distribution, with random bits of crypto/rand.
// Every decision compares integers with integers: no floating-point numbers are used, so the attacks on
// floating-point noise (Mironov 2012) do not apply. Parameters given as float64 are replaced by fractions on the
// safe side: a little more noise, never less, by less than one part in 10^7.
//
// # The charge for discrete Gaussian noise
//
// The ledger charges for continuous Gaussian noise of standard deviation sigma,
// because its composition is known exactly. The noise drawn is the discrete
// Gaussian of variance sigma² + 1/8 (sigma² + 5 from sigma 256 on), and moving it
// by a whole number d is never easier to see than moving N(0, sigma²) by d. Why:
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
// Below sigma = 256 it is computed. With s² the variance parameter, the centre
// has z(m) - z(m-1) about (1 + 1/(24 s²))/s and the far tail (m about 4.5 s²)
// about (1 + 0.025/s²)/s. As 1/sqrt(s² - 1/8) is (1 + 1/(16 s²))/s and more, 1/8
// covers both with room. A test computes the supremum for many sigma from 1 on
// and far into the tail. Smaller sigma are refused.
//
// From 256 to 2^29, where fixed-point sums live, float64 could not show so small
// a difference, and a margin of 5, which costs nothing there, allows a proof.
// Round y to the whole number x with probability exp(-(x-y)²/8)/Z(y). By Poisson
// summation Z(y) is sqrt(8 pi) up to a factor 1±h, h = 2.01 exp(-8 pi²) <
// 1.1e-34. If Z were constant, then Y ~ N(0, s²-4), rounded so, would have
// exactly the distribution of X, since convolution adds variances; as it is, the
// probabilities of any event and of its complement differ by factors within
// exp(±2.3e-34). Rounding is post-processing: rounded Y and rounded Y+1 are
// 1/sqrt(s²-4)-GDP. A factor exp(±eta) on both sides of an event moves its
// normal quantile by at most 2 sqrt(pi/2) eta (Mills' ratio is sqrt(pi/2) at 0
// and falls), once for X and once for X+1. Hence
//
//	z(m) - z(m-1)  <=  1/sqrt(s²-4) + 2e-33  <=  1/sigma,
//
// because 1/sigma - 1/sqrt(sigma²+1) >= 1/(2 (sigma²+1)^1.5) > 1e-27.
//
// # Larger moves and vectors
//
// Nothing above requires a move by 1. For a vector whose entries move by whole numbers d_1, d_2, ... under
// independent noise, entry j is |d_j|/sigma-GDP, and the product of these trade-off functions is that of their
// composition: the vector is ||d||/sigma-GDP with the L2 norm (Dong, Roth, Su 2019, Theorem 3.2 and Corollary
// 3.3). As long as all moves are integers, the lattice and the noise of one vote are enough. This is why vectors
// are rounded before they are added, and why sigma is in whole steps. Releases compose in the same way, adaptively
// too. Rényi and concentrated DP of the same size hold even without a margin (Canonne, Kamath, Steinke 2020,
// Proposition 5 and Theorem 14).
//
// # What it does not promise
//
// The time of rejection sampling depends on what is drawn, and the time of exponential selection on the scores. An
// observer that can time single draws learns something about the noise. A round of many queries over a network
// hides most of that; nothing here hides the rest. The time also shows whether a query passed a threshold, but
// that is part of the release. The time of adding and comparing does not depend on the numbers, except for the
// random choice among equal noisy counts, which are released or discarded with it. Encoding a unit's vector
// happens at its site, and takes a second pass for some vectors. Memory that held random bytes is not wiped.
package gnmax
