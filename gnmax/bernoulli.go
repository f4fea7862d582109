package gnmax

import "math/bits"

// bernoulli is true with probability n/d, for 0 <= n <= d.
func (d *draws) bernoulli(n, denominator uint64) bool {
	return d.uniform(denominator) < n
}

// bernoulliExpFraction is true with probability exp(-n/denominator), for
// n <= denominator (Canonne, Kamath, Steinke 2020, Algorithm 1, first case).
//
// With gamma = n/denominator, toss coins of probability gamma/1, gamma/2, ...
// until one fails, at toss K. K > k has probability gamma^k/k!, so that K is
// odd with probability 1 - gamma + gamma²/2 - ... = exp(-gamma).
func (d *draws) bernoulliExpFraction(n, denominator uint64) bool {
	for k := uint64(1); k < maxRepeats; k++ {
		// gamma/k as two independent coins: the product of the denominators
		// need not fit.
		if (k > 1 && d.uniform(k) != 0) || !d.bernoulli(n, denominator) {
			return k%2 == 1
		}
		if d.err != nil {
			return false
		}
	}
	d.fail(errBroken)
	return false
}

// bernoulliExp is true with probability exp(-(hi 2^64 + lo)/denominator), for
// hi < denominator (the same, second case): e^-gamma is as many factors e^-1 as
// gamma has whole parts, and one for the rest.
func (d *draws) bernoulliExp(hi, lo, denominator uint64) bool {
	whole, rest := bits.Div64(hi, lo, denominator)
	for ; whole > 0; whole-- {
		if d.err != nil || !d.bernoulliExpFraction(1, 1) {
			return false
		}
	}
	return d.bernoulliExpFraction(rest, denominator)
}
