package main

import (
	"math"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// leakyKernel keeps x if it is not below 0. Otherwise it computes slope*x and masks it with the bits of keep,
// which are 0 for a slope of 0: 0 times infinity must become 0.
func (g *vectorGen) leakyKernel() {
	slope, keep, zero := g.spread("slope"), g.spread("keep"), g.inReg(0)
	g.unary(func(x reg.VecVirtual) reg.VecVirtual {
		y := g.vec()
		g.VMULPS(slope, x, y)
		g.VANDPS(keep, y, y)
		return g.choose(g.compare(less, x, zero), y, x)
	})
}

func (g *vectorGen) leakyGradKernel() {
	dx, dy, y, n := g.ptr("dx"), g.ptr("dy"), g.ptr("y"), g.ptr("n")
	slope, keep, zero := g.spread("slope"), g.spread("keep"), g.inReg(0)
	g.each(n, func(s span) {
		d, out, leaked := g.load(dy, s), g.load(y, s), g.vec()
		g.VMULPS(slope, d, leaked)
		g.VANDPS(keep, leaked, leaked)
		g.store(g.choose(g.compare(atMost, out, zero), leaked, d), dx, s)
	})
}

func (g *vectorGen) addScaledKernel() {
	dst, x, n, a := g.ptr("dst"), g.ptr("x"), g.ptr("n"), g.spread("a")
	g.each(n, func(s span) {
		d := g.load(dst, s)
		g.VFMADD231PS(g.load(x, s), a, d)
		g.store(d, dst, s)
	})
}

func (g *vectorGen) scaleKernel() {
	dst, n, a := g.ptr("dst"), g.ptr("n"), g.spread("a")
	g.each(n, func(s span) {
		d := g.load(dst, s)
		g.VMULPS(a, d, d)
		g.store(d, dst, s)
	})
}

func (g *vectorGen) lerpKernel() {
	dst, x, n := g.ptr("dst"), g.ptr("x"), g.ptr("n")
	keep, take := g.spread("keep"), g.spread("take")
	g.each(n, func(s span) {
		d, a := g.load(dst, s), g.load(x, s)
		g.VMULPS(keep, d, d)
		g.VFMADD231PS(a, take, d)
		g.store(d, dst, s)
	})
}

// fields spreads the numbers behind the argument c.
func (g *vectorGen) fields(count int) []reg.VecVirtual {
	c, out := g.ptr("c"), make([]reg.VecVirtual, count)
	for i := range out {
		out[i] = g.vec()
		g.VBROADCASTSS(operand.Mem{Base: c, Disp: 4 * i}, out[i])
	}
	return out
}

// moment leaves keep*v + take*g*g in v.
func (g *vectorGen) moment(v, grad, keep, take reg.VecVirtual) {
	t := g.vec()
	g.VMULPS(take, grad, t)
	g.VMULPS(keep, v, v)
	g.VFMADD231PS(grad, t, v)
}

// quotient is a/(root sqrt(v) + eps). Square root and division share a slow
// unit, so AVX-512 divides by an approximate reciprocal of 14 bits and corrects
// the result once, which gives it all its bits but the last. There is nothing to
// correct where the reciprocal is 0.
func (g *vectorGen) quotient(a, v, root, eps reg.VecVirtual) reg.VecVirtual {
	d, q := g.vec(), g.vec()
	g.VSQRTPS(v, d)
	g.VFMADD213PS(eps, root, d)
	if !g.wide {
		g.VDIVPS(d, a, q)
		return q
	}
	inverse, rest := g.vec(), g.vec()
	finite := g.compare(notEqual, d, g.infinite())
	g.VRCP14PS(d, inverse)
	g.VMULPS(inverse, a, q)
	g.VMOVAPS(a, rest)
	g.VFNMADD231PS(d, q, rest)
	g.VFMADD231PS(inverse, rest, finite, q)
	return q
}

// infinite is made before the loops where quotient needs it.
func (g *vectorGen) infinite() operand.Op { return g.num(float32(math.Inf(1))) }

// adamKernel: c holds beta1, 1-beta1, beta2, 1-beta2, root, epsilon, keep, rate.
func (g *vectorGen) adamKernel() {
	w, m, v, grad, n := g.ptr("w"), g.ptr("m"), g.ptr("v"), g.ptr("grad"), g.ptr("n")
	c := g.fields(8)
	g.infinite()
	g.each(n, func(s span) {
		d, first, second := g.load(grad, s), g.load(m, s), g.load(v, s)
		g.VMULPS(c[0], first, first)
		g.VFMADD231PS(d, c[1], first)
		g.store(first, m, s)
		g.moment(second, d, c[2], c[3])
		g.store(second, v, s)
		g.descend(w, s, c[6], c[7], g.quotient(first, second, c[4], c[5]))
	})
}

// descend leaves keep*w - rate*d in w.
func (g *vectorGen) descend(w reg.GPVirtual, s span, keep, rate, d reg.VecVirtual) {
	x := g.load(w, s)
	g.VMULPS(keep, x, x)
	g.VFNMADD231PS(d, rate, x)
	g.store(x, w, s)
}

func (g *vectorGen) sgdKernel() {
	w, grad, n := g.ptr("w"), g.ptr("grad"), g.ptr("n")
	keep, rate := g.spread("keep"), g.spread("rate")
	g.each(n, func(s span) { g.descend(w, s, keep, rate, g.load(grad, s)) })
}

func (g *vectorGen) momentumKernel() {
	w, m, grad, n := g.ptr("w"), g.ptr("m"), g.ptr("grad"), g.ptr("n")
	keep, rate, momentum := g.spread("keep"), g.spread("rate"), g.spread("momentum")
	g.each(n, func(s span) {
		d := g.load(m, s)
		g.VFMADD213PS(g.load(grad, s), momentum, d)
		g.store(d, m, s)
		g.descend(w, s, keep, rate, d)
	})
}
