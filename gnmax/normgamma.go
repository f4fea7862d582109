package gnmax

import "math/bits"

const (
	// lengthBits is the number of binary digits of a vector's length after the point.
	lengthBits = 10
	// rootBits is the number of binary digits of the square root of a dimension after the point.
	rootBits = 10
	// maxDimension keeps acceptance above 1 in 2^16; see radial.trials.
	maxDimension = 40
)

// radial is noise on vectors of d whole numbers. Its vector z has a probability proportional to exp(-c(z)/(2^lengthBits
// s)), where c(z) is 2^lengthBits times the L2 norm of z, rounded up to a whole number, and s = num/den.
type radial struct {
	// den is a power of two; both are 2^38 at most.
	num, den uint64
	// root is 2^rootBits sqrt(d), rounded up: proposals have the scale s root/2^rootBits.
	root uint64
}

// draw fills dst by rejection: entries are proposed as independent discrete Laplace
// noise of scale t = s root/2^rootBits, and kept with probability
//
//	exp(-(c(z)/(2^lengthBits s) - |z|_1/t)).
//
// Its exponent is nowhere below zero, as |z|_1 <= sqrt(d) |z|_2 and both roots are
// rounded up; and it is a fraction of whole numbers, so that nothing is rounded here.
func (d *draws) radial(dst []int64, r radial) {
	num, den := r.num*r.root, r.den<<rootBits // below 2^51 each
	var last [3]uint64
	same := 0
	for range r.trials(len(dst)) {
		var hi, lo, sum uint64 // of the squares: below 40 x 2^100
		for i := range dst {
			dst[i] = d.laplace(num, den)
			magnitude := uint64(max(dst[i], -dst[i])) // at most 2^12 t, which is 2^50
			h, l := bits.Mul64(magnitude, magnitude)
			var carry uint64
			lo, carry = bits.Add64(lo, l, 0)
			hi += h + carry
			sum += magnitude
		}
		if d.err != nil {
			return
		}
		if d.bernoulliExp(r.exponent(hi, lo, sum)) && d.err == nil {
			return
		}
		// A refused proposal is not zero, so that chance does not repeat its squares and
		// sum for long.
		if this := [3]uint64{hi, lo, sum}; this != last {
			last, same = this, 0
		} else if same++; same == maxRepeats {
			break
		}
	}
	d.fail(errBroken)
}

// exponent is that of draw for a proposal with these squares (hi 2^64 + lo, below
// 2^106) and sum of magnitudes, as (high 2^64 + low)/denominator:
//
//	c den/(2^lengthBits num) - sum den 2^rootBits/(num root)
//	  = den (c root - sum 2^(lengthBits+rootBits)) / (2^lengthBits num root).
func (r radial) exponent(hi, lo, sum uint64) (high, low, denominator uint64) {
	c := rootUp(hi<<(2*lengthBits)|lo>>(64-2*lengthBits), lo<<(2*lengthBits))
	high, low = bits.Mul64(c, r.root)
	h, l := bits.Mul64(sum, 1<<(lengthBits+rootBits))
	low, borrow := bits.Sub64(low, l, 0)
	high, _ = bits.Sub64(high, h, borrow)
	// The quotient is below c/(2^lengthBits s), which is below 2^19: entries are
	// at most 2^12 t. So the product is below 2^80, and what high loses is zero.
	h, low = bits.Mul64(low, r.den)
	return high*r.den + h, low, r.num * r.root << lengthBits // below 2^61
}

// rootUp is the square root of hi 2^64 + lo, below 2^126, rounded up.
func rootUp(hi, lo uint64) uint64 {
	length := bits.Len64(lo)
	if hi > 0 {
		length = 64 + bits.Len64(hi)
	}
	below := uint64(0) // the largest number with below² < hi 2^64 + lo, from its highest digit
	for digit := uint64(1) << ((length + 1) / 2); digit > 0; digit >>= 1 {
		h, l := bits.Mul64(below|digit, below|digit)
		if h < hi || h == hi && l < lo {
			below |= digit
		}
	}
	if hi == 0 && lo == 0 {
		return 0
	}
	return below + 1
}

// trials bounds the proposals for a vector of d entries. On real numbers one in
// (e/(pi/2))^(d/2) / sqrt 2 = 0.71 x 2^(0.396 d) is kept, for large d; on whole ones
// no fewer, as measured. So 1024 of 2^(2 + 2 d/5) fail by chance with a
// probability below 10^-444.
func (radial) trials(d int) uint64 { return 1024 << (2 + 2*d/5) }
