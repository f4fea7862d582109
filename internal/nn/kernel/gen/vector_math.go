package main

import (
	"math"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The portable twins in vector_portable.go explain the algorithms; the numbers
// here must be theirs.
const (
	log2e = 1.44269504
	// ln2 in two parts, the first of 17 bits.
	ln2hi, ln2lo = 6.9313812256e-01, 9.0580006145e-06
	magic        = 0x1.8p23
	expCut       = -86.98
	logitMax     = 88
	tanhMax      = 9.1
)

// The polynomials of vector_portable.go, lowest power first.
var (
	expPoly   = []float32{0.49999994, 0.166665196, 0.0416684076, 0.00836892147, 0.00138141739}
	log1pPoly = []float32{-0.499999315, 0.33330512, -0.249585882, 0.196954012, -0.153553978, 0.106805585, -0.0576644689,
		0.0202045981, -0.00331847533}
)

// Predicates of VCMPPS that raise nothing for NaN.
const (
	notEqual = operand.U8(0x04) // or unordered
	notLess  = operand.U8(0x15) // or unordered
	less     = operand.U8(0x11)
	atMost   = operand.U8(0x12)
)

// compare makes the mask of the lanes in which a stands to b as p says.
func (g *vectorGen) compare(p operand.U8, a, b operand.Op) operand.Op {
	if g.wide {
		k := g.K()
		g.VCMPPS(p, b, a, k)
		return k
	}
	m := g.YMM()
	g.VCMPPS(p, b, a, m)
	return m
}

// choose returns v, with w in the lanes of the mask.
func (g *vectorGen) choose(mask operand.Op, w operand.Op, v reg.VecVirtual) reg.VecVirtual {
	out := g.vec()
	if g.wide {
		g.VBLENDMPS(w, v, mask, out)
	} else {
		g.VBLENDVPS(mask, w, v, out)
	}
	return out
}

// horner evaluates a polynomial at r.
func (g *vectorGen) horner(coefs []operand.Op, r reg.VecVirtual) reg.VecVirtual {
	p, last := g.vec(), len(coefs)-1
	g.VMOVAPS(coefs[last], p)
	for i := last - 1; i >= 0; i-- {
		g.VFMADD213PS(coefs[i], r, p)
	}
	return p
}

// reduction writes x = n ln2 + r: it leaves r in x and returns n with the bias
// in its low bits, ready to be shifted to the exponent.
type reduction struct {
	log2e, magic, hi, lo operand.Op
}

func (g *vectorGen) reduction(bias float32) reduction {
	return reduction{g.inReg(math.Float32bits(log2e)), g.inReg(math.Float32bits(magic + bias)), g.num(ln2hi),
		g.num(ln2lo)}
}

func (g *vectorGen) reduce(c reduction, x reg.VecVirtual) reg.VecVirtual {
	t, n := g.vec(), g.vec()
	g.VMOVAPS(c.magic, t)
	g.VFMADD231PS(c.log2e, x, t)
	g.VSUBPS(c.magic, t, n)
	g.VFNMADD231PS(c.hi, n, x)
	g.VFNMADD231PS(c.lo, n, x)
	return t
}

// exponential holds the constants of exp.
type exponential struct {
	reduction
	cut  operand.Op
	poly []operand.Op
}

// newExp makes the constants. The polynomial and the exponent give 2 e^r 2^(n-1),
// for which the largest n has an exponent too.
func (g *vectorGen) newExp() exponential {
	e := exponential{reduction: g.reduction(126), cut: g.num(expCut)}
	twice := []float32{2, 2}
	for _, c := range expPoly {
		twice = append(twice, 2*c)
	}
	e.poly = g.nums(twice)
	return e
}

// exp is e^x, 0 below the cut, and NaN for NaN, for x whose result is finite. It changes x.
// Lanes outside mask, unless nil, become 0.
func (g *vectorGen) exp(e exponential, x reg.VecVirtual, mask operand.Op) reg.VecVirtual {
	keep := g.compare(notLess, x, e.cut)
	if mask != nil && g.wide {
		g.KANDW(mask, keep, keep)
	} else if mask != nil {
		g.VANDPS(mask, keep, keep)
	}
	scale := g.reduce(e.reduction, x)
	p := g.horner(e.poly, x)
	g.VPSLLD(operand.U8(23), scale, scale)
	if g.wide {
		g.VMULPS_Z(scale, p, keep, p)
	} else {
		g.VMULPS(scale, p, p)
		g.VANDPS(keep, p, p)
	}
	return p
}

// unary is the frame of dst[i] = f(x[i]).
func (g *vectorGen) unary(f func(x reg.VecVirtual) reg.VecVirtual) {
	dst, x, n := g.ptr("dst"), g.ptr("x"), g.ptr("n")
	g.each(n, func(s span) { g.store(f(g.load(x, s)), dst, s) })
}

func (g *vectorGen) sigmoidKernel() {
	top, e, one := g.inReg(math.Float32bits(logitMax)), g.newExp(), g.num(1)
	g.unary(func(x reg.VecVirtual) reg.VecVirtual {
		g.VMINPS(x, top, x)
		u, d := g.exp(e, x, nil), g.vec()
		g.VADDPS(one, u, d)
		g.VDIVPS(d, u, u)
		return u
	})
}

func (g *vectorGen) tanhKernel() {
	top, sign := g.inReg(math.Float32bits(tanhMax)), g.inReg(1<<31)
	c, poly := g.reduction(127), g.nums(expPoly)
	one, two := g.num(1), g.num(2)
	g.unary(func(x reg.VecVirtual) reg.VecVirtual {
		y, signs := g.vec(), g.vec()
		g.VANDPS(sign, x, signs)
		g.VXORPS(signs, x, y)
		g.VMINPS(y, top, y)
		g.VADDPS(y, y, y)
		// u = e^y - 1 = 2^n (r + r^2 P(r)) + (2^n - 1).
		scale := g.reduce(c, y)
		p, square := g.horner(poly, y), g.vec()
		g.VMULPS(y, y, square)
		g.VFMADD213PS(y, square, p)
		g.VPSLLD(operand.U8(23), scale, scale)
		u, d := g.vec(), g.vec()
		g.VSUBPS(one, scale, u)
		g.VFMADD231PS(p, scale, u)
		g.VADDPS(two, u, d)
		g.VDIVPS(d, u, u)
		g.VORPS(signs, u, u)
		return u
	})
}

func (g *vectorGen) softplusKernel() {
	sign, zero := g.inReg(1<<31), g.inReg(0)
	e, poly := g.newExp(), g.nums(log1pPoly)
	g.unary(func(x reg.VecVirtual) reg.VecVirtual {
		y, positive, square := g.vec(), g.vec(), g.vec()
		g.VMAXPS(x, zero, positive)
		g.VORPS(sign, x, y)
		u := g.exp(e, y, nil)
		p := g.horner(poly, u)
		g.VMULPS(u, u, square)
		g.VFMADD213PS(u, square, p)
		g.VADDPS(positive, p, p)
		return p
	})
}
