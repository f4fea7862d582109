// Package ratio estimates importance weights: how much more often a record occurs among real records than among
// synthetic ones. The weights remove a generator's bias from what is computed from its rows (Ji and Elkan 2013;
// Ghalebikesabi et al. 2022).
//
// The log-ratio is linear in bounded public features, log w(x) = beta . x, where beta minimizes a penalized
// logistic regression loss:
//
//	J(b) = (s(N)/n) sum over real l(b.x) + (s(n)/m) sum over synthetic l(-b.x) + (Lambda/2) |b|²
//
// with l(t) = log(1 + exp(-t)). n is the public number of privacy units, N the true one, and m the number of
// synthetic records. A unit with several records counts with their mean. s(N) is 1 - N/(16 n) up to N = 8 n, and 4
// n/N above: it bounds the weight of the real records for every N. For N = n each side has the same weight, 15/16,
// so no constant has to be added: with enough features and no penalty, exp(beta . x) is the ratio of densities.
//
// [New] makes the features, [Steps.Add] computes what a node sends at given coefficients, and [Fit] finds the
// minimizer from such sums. [Sensitivity] bounds how far one unit moves the minimizer. A [Lattice] rounds it to
// integers, to which package gnmax adds noise. [Noise] describes the effect of the noise on weights, and
// [LogWeights] returns their logarithms. Student, nodes and aggregator run the same code.
//
// Features, [Problem] with its number of passes, [Sensitivity] and lattices are public. Sums, iterates, and
// weights computed from them are private. Noisy coefficients, and what is computed from them and synthetic
// records, may be released.
package ratio

import "errors"

var (
	// ErrSpec matches, with errors.Is, the error that the numbers of features, steps, a lattice, noise or a
	// problem are unusable. All of these are public.
	ErrSpec = errors.New("unusable numbers")
	// ErrShape matches, with errors.Is, the error that a slice has the wrong length.
	ErrShape = errors.New("wrong length")
	// ErrRange matches, with errors.Is, the error that noise is too large for its bias to be corrected; errors.As
	// finds a [*RangeError].
	ErrRange = errors.New("noise too large for a correction")
	// ErrWeights matches, with errors.Is, the error that weights cannot be used: negative, not finite, or none above
	// zero.
	ErrWeights = errors.New("unusable weights")
)
