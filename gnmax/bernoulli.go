package gnmax

import "math/bits"

// bernoulliExpFraction is true with probability exp(-n/denominator), for
// n <= denominator (Canonne, Kamath, Steinke 2020, Algorithm 1, first case).
//
// With gamma = n/denominator, toss coins of probability gamma/1, gamma/2, ...
// until one fails, at toss K. K > k has probability gamma^k/k!, so that K is
// odd with probability 1 - gamma + gamma²/2 - ... = exp(-gamma).
func (d *draws) bernoulliExpFraction(n, denominator uint64) bool {
	if n == denominator {
		return d.bernoulliExpOne()
	}
	for k := uint64(1); k < maxRepeats; k++ {
		// gamma/k as two independent coins: the product of the denominators
		// need not fit.
		if (k > 1 && d.uniform(k) != 0) || d.uniform(denominator) >= n {
			return k%2 == 1
		}
		if d.err != nil {
			return false
		}
	}
	d.fail(errBroken)
	return false
}

// bernoulliExpOne is true with probability exp(-1). It is the case gamma = 1,
// where K > k has probability 1/k!: one number below 7! tells which of the first
// seven tosses failed, if one did.
func (d *draws) bernoulliExpOne() bool {
	const all = 5040 // 7!
	switch x := d.uniform(all); {
	case x >= all/2: // K = 2
		return false
	case x >= all/6: // K = 3
		return true
	case x >= all/24:
		return false
	case x >= all/120:
		return true
	case x >= all/720:
		return false
	case x >= 1: // K = 7
		return true
	}
	for k := uint64(8); k < maxRepeats && d.err == nil; k++ {
		if d.uniform(k) != 0 {
			return k%2 == 1
		}
	}
	d.fail(errBroken)
	return false
}

// bernoulliExp is true with probability exp(-(hi 2^64 + lo)/denominator) (the same, second case): e^-gamma is the
// product of floor(gamma) factors e^-1 and one factor for the rest.
func (d *draws) bernoulliExp(hi, lo, denominator uint64) bool {
	if hi == 0 && lo < denominator {
		return d.bernoulliExpFraction(lo, denominator)
	}
	// A quotient that does not fit exceeds maxRepeats, so it is never used.
	whole, rest := uint64(maxRepeats), uint64(0)
	if hi < denominator {
		whole, rest = bits.Div64(hi, lo, denominator)
	}
	for i := uint64(0); i < whole; i++ {
		if !d.bernoulliExpOne() {
			return false
		}
		if i+1 == maxRepeats {
			d.fail(errBroken)
			return false
		}
	}
	return d.bernoulliExpFraction(rest, denominator)
}
