// Package ratio estimates how much more often a record comes up among real ones than
// among synthetic ones: the importance weights that take a generator's bias out of
// what is computed from its rows (Ji and Elkan 2013; Ghalebikesabi et al. 2022).
//
// The log-ratio is linear in bounded public features, log w(x) = beta . x, and beta the
// minimizer of a logistic regression with a penalty:
//
//	J(b) = (s(N)/n) sum over real l(b.x) + (s(n)/m) sum over synthetic l(-b.x) + (Lambda/2) |b|²
//
// with l(t) = log(1 + exp(-t)). The number n of privacy units is a public constant and N
// their true one, a unit of several records counts with their mean, and m is the number of
// synthetic records. s(N) is 1 - N/(16 n) up to N = 8 n, and 4 n/N above: it bounds the real
// records' weight whatever N is. For N = n each side has the same weight, 15/16, so that no
// constant is to be added: with as many features as needed and no penalty exp(beta . x) is
// the ratio of densities.
//
// [New] makes the features, [Steps.Add] what a node sends at given coefficients,
// [Fit] the minimizer from such sums. [Sensitivity] bounds how far one unit moves it, a
// [Lattice] makes whole numbers of it, to which package gnmax adds noise, [Noise]
// says what the noise does to weights, and [LogWeights] are their logarithms. Everything is
// the same code at the student, the nodes and the aggregator.
//
// What of it is private: Features, [Problem] with its number of passes, [Sensitivity] and
// lattices are public. Sums, iterates, and weights made of them are not. Noisy coefficients
// and what is made of them and of synthetic records are.
package ratio

import "errors"

var (
	// ErrSpec matches, with errors.Is, the error that features, steps, a lattice, noise or a problem have unusable
	// numbers. All of these are public.
	ErrSpec = errors.New("unusable numbers")
	// ErrShape matches, with errors.Is, the error that a slice has the wrong length.
	ErrShape = errors.New("another length than needed")
	// ErrRange matches, with errors.Is, the error that noise is too large for its bias to be corrected; errors.As finds
	// a [*RangeError].
	ErrRange = errors.New("noise too large to be corrected for")
	// ErrWeights matches, with errors.Is, the error that weights cannot be used: negative, not finite, or none above
	// zero.
	ErrWeights = errors.New("unusable weights")
)
