package gnmax

import "math/bits"

// DiscreteLaplaces fills dst with independent integers x, each with probability
// proportional to exp(-|x|/scale), exactly (Canonne, Kamath, Steinke 2020, Algorithm 2).
// After an error dst holds zeros.
func (s *Source) DiscreteLaplaces(dst []int64, scale Scale) error {
	if scale.num == 0 {
		clear(dst)
		return errZeroParameter
	}
	return s.fillWith(dst, func(d *draws) int64 { return d.laplace(scale.num, scale.den) })
}

// laplace draws from exp(-|x| den/num).
//
// U + num V is geometric with ratio exp(-1/num): U is uniform below num, kept
// with probability exp(-U/num), and V counts factors exp(-1). Dividing by den
// and rounding down gives the ratio exp(-den/num). A random sign makes it
// two-sided; zero would come up with both signs, so one of them is refused.
func (d *draws) laplace(num, den uint64) int64 {
	for range maxRepeats {
		if d.err != nil {
			return 0
		}
		u := d.uniform(num)
		if !d.bernoulliExpFraction(u, num) {
			continue
		}
		v := d.geometric()
		hi, lo := bits.Mul64(num, v)
		magnitude, carry := bits.Add64(lo, u, 0)
		if den > 1 {
			// The quotient fits: NewScale keeps num/den at 2^38 or below.
			magnitude, _ = bits.Div64(hi+carry, magnitude, den)
		}
		negative := d.flip()
		switch {
		case !negative:
			return int64(magnitude)
		case magnitude != 0:
			return -int64(magnitude)
		}
	}
	d.fail(errBroken)
	return 0
}

// geometric counts how often a coin of probability 1/e succeeds in a row.
func (d *draws) geometric() uint64 {
	for v := range uint64(maxRepeats) {
		if !d.bernoulliExpOne() {
			return v
		}
	}
	d.fail(errBroken)
	return 0
}
