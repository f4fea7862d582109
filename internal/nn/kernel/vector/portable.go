package vector

import "math"

// ln2 in two parts, the first of 17 bits, so that its products with exponents are
// exact: of FreeBSD's e_logf.c.
const (
	log2e = 1.44269504
	ln2hi = 6.9313812256e-01
	ln2lo = 9.0580006145e-06
)

const (
	// Adding magic rounds to a whole number, in the low bits of the sum.
	magic = 0x1.8p23
	// expCut is a little above the least x of a normal e^x, since the exponent
	// 2^(n-1) must be normal too.
	expCut = -86.98
	// logitMax and tanhMax are greater than all x whose result is not yet 1.
	logitMax = 88
	tanhMax  = 9.1
)

// Minimax polynomials, by the exchange algorithm of Remez in numbers of 40 digits
// for the least relative error of the function, then rounded to float32.

// expPoly is P in e^r = 1 + r + r^2 P(r) for |r| <= ln(2)/2, within 2^-28.2.
var expPoly = [5]float32{0.49999994, 0.166665196, 0.0416684076, 0.00836892147, 0.00138141739}

// log1pPoly is P in log(1+u) = u + u^2 P(u) for 0 <= u <= 1, within 2^-27.5.
var log1pPoly = [9]float32{-0.499999315, 0.33330512, -0.249585882, 0.196954012, -0.153553978, 0.106805585,
	-0.0576644689, 0.0202045981, -0.00331847533}

// reduce writes x = n ln2 + r with |r| <= ln(2)/2, and returns 2^(n+bias-127).
func reduce(x, bias float32) (r, scale float32) {
	t := x*log2e + (magic + bias)
	n := t - (magic + bias)
	return (x - n*ln2hi) - n*ln2lo, math.Float32frombits(math.Float32bits(t) << 23)
}

// expm1Poly is e^r - 1 for |r| <= ln(2)/2.
func expm1Poly(r float32) float32 {
	p := expPoly[4]
	p = p*r + expPoly[3]
	p = p*r + expPoly[2]
	p = p*r + expPoly[1]
	p = p*r + expPoly[0]
	return p*(r*r) + r
}

// expOne is e^x for x whose result is finite, as 2 e^r 2^(n-1).
func expOne(x float32) float32 {
	if x < expCut {
		return 0
	}
	r, scale := reduce(x, 126)
	return (2 + 2*expm1Poly(r)) * scale
}

func sigmoidPortable(dst, x []float32) {
	for i, v := range x {
		u := expOne(min(v, logitMax))
		dst[i] = u / (1 + u)
	}
}

// tanhPortable has u = e^(2|x|) - 1 and tanh |x| = u/(u + 2).
func tanhPortable(dst, x []float32) {
	const sign = 1 << 31
	for i, v := range x {
		bits := math.Float32bits(v)
		y := min(math.Float32frombits(bits&^sign), tanhMax)
		r, scale := reduce(y+y, 127)
		u := expm1Poly(r)*scale + (scale - 1)
		dst[i] = math.Float32frombits(math.Float32bits(u/(u+2)) | bits&sign)
	}
}

// softplusPortable has max(x, 0) + log(1 + e^-|x|).
func softplusPortable(dst, x []float32) {
	for i, v := range x {
		u := expOne(-max(v, -v))
		p := log1pPoly[8]
		for j := 7; j >= 0; j-- {
			p = p*u + log1pPoly[j]
		}
		dst[i] = (p*(u*u) + u) + max(v, 0)
	}
}

func softmaxPortable(x []float32, rows, cols, stride int) {
	for i := range rows {
		row := x[i*stride:][:cols]
		top := row[0]
		for _, v := range row[1:] {
			top = max(top, v)
		}
		var sum float32
		for j, v := range row {
			row[j] = expOne(v - top)
			sum += row[j]
		}
		for j := range row {
			row[j] /= sum
		}
	}
}
