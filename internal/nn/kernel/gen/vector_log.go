package main

import (
	"math"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func (g *vectorGen) logKernel() {
	one := g.inReg(math.Float32bits(1))
	poly, hi, lo := g.nums(logPoly), g.num(ln2hi), g.num(ln2lo)
	split := g.splitWide
	if !g.wide {
		split = g.splitNarrow
	}
	g.unary(func(x reg.VecVirtual) reg.VecVirtual {
		k, f := split(x)
		g.VSUBPS(one, f, f)
		p, square, low := g.horner(poly, f), g.vec(), g.vec()
		g.VMULPS(f, f, square)
		g.VMULPS(lo, k, low)
		g.VFMADD213PS(low, square, p)
		g.VADDPS(f, p, p)
		g.VFMADD231PS(hi, k, p)
		if g.wide {
			return p
		}
		// NaN below 0, -Inf at 0, Inf at Inf.
		g.VORPS(g.compare(notAtLeast, x, g.num(0)), p, p)
		p = g.choose(g.compare(equal, x, g.num(0)), g.num(float32(math.Inf(-1))), p)
		return g.choose(g.compare(equal, x, g.infinite()), x, p)
	})
}

// splitWide writes x = 2^k m with m in [0.75, 1.5). The instructions know what
// becomes of 0, denormals, infinity and NaN.
func (g *vectorGen) splitWide(x reg.VecVirtual) (k, m reg.VecVirtual) {
	k, m = g.vec(), g.vec()
	one := g.inReg(math.Float32bits(1))
	g.VGETEXPPS(x, k)
	g.VGETMANTPS(operand.U8(0b1011), x, m) // [0.75, 1.5), NaN below 0
	g.VADDPS(one, k, g.compare(less, m, one), k)
	return k, m
}

// splitNarrow is splitWide for positive finite numbers.
func (g *vectorGen) splitNarrow(x reg.VecVirtual) (k, m reg.VecVirtual) {
	k, m = g.vec(), g.vec()
	up, shift := g.vec(), g.vec()
	tiny := g.compare(less, x, g.num(0x1p-126))
	g.VMULPS(g.num(0x1p23), x, up)
	y := g.choose(tiny, up, x)
	g.VPSUBD(g.word(math.Float32bits(0.75)), y, k)
	g.VPSRAD(operand.U8(23), k, k)
	g.VPSLLD(operand.U8(23), k, shift)
	g.VPSUBD(shift, y, m)
	g.VCVTDQ2PS(k, k)
	g.VANDPS(g.num(23), tiny, up)
	g.VSUBPS(up, k, k)
	return k, m
}
