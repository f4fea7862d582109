package gnmax

import "math/bits"

// DiscreteGaussian draws an integer x with probability proportional to
// exp(-x²/(2 v)), exactly, where v is the smallest fraction of the sampler's form
// with v >= sigma² + 1/8, and from sigma 256 on with v >= sigma² + 5 (see the
// package's documentation).
func (s *Source) DiscreteGaussian(sigma Sigma) (int64, error) {
	if sigma.t == 0 {
		return 0, errZeroParameter
	}
	return s.draw(sigma.sampler())
}

// DiscreteGaussians fills dst with independent draws of
// [Source.DiscreteGaussian]. After an error dst holds zeros.
func (s *Source) DiscreteGaussians(dst []int64, sigma Sigma) error {
	if sigma.t == 0 {
		clear(dst)
		return errZeroParameter
	}
	return s.fillWith(dst, sigma.sampler())
}

// sampler returns the sampler of the noise: by blocks if the noise is large.
func (s Sigma) sampler() func(d *draws) int64 {
	if s.t < leastBlocks {
		return func(d *draws) int64 { return d.gaussian(s) }
	}
	b := newBlocks(s)
	return b.draw
}

// gaussian is Algorithm 3 of Canonne, Kamath, Steinke 2020: a discrete Laplace y
// of scale t is kept with probability exp(-(|y| - v/t)²/(2 v)), because
//
//	-|y|/t - (|y| - v/t)²/(2 v) = -y²/(2 v) - v/(2 t²).
func (d *draws) gaussian(s Sigma) int64 {
	for range maxRepeats {
		y := d.laplace(s.t, 1)
		if d.err != nil {
			return 0
		}
		if d.bernoulliExp(s.exponent(y)) {
			return y
		}
	}
	d.fail(errBroken)
	return 0
}

// exponent is (|y| - v/t)²/(2 v) as (hi 2^64 + lo)/denominator. With v = t w/q it
// is (|y| q - w)²/(2 t w q): whole numbers.
func (s Sigma) exponent(y int64) (hi, lo, denominator uint64) {
	distance := uint64(max(y, -y)) * s.q // below 2^43, as |y| <= t 2^12
	if distance > s.w {
		distance -= s.w
	} else {
		distance = s.w - distance
	}
	hi, lo = bits.Mul64(distance, distance)
	return hi, lo, 2 * s.t * s.w * s.q // below 2^62
}
