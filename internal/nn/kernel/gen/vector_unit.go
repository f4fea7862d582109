package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// rowDotsKernel takes four rows at a time, so that a vector of w serves four.
func (g *vectorGen) rowDotsKernel() {
	y, x, w, rows, cols, bias := g.ptr("y"), g.ptr("x"), g.ptr("w"), g.ptr("rows"), g.ptr("cols"), g.spread("bias")
	stride := g.GP64()
	g.MOVQ(cols, stride)
	g.SHLQ(operand.U8(2), stride)
	group := func(count int) {
		sums := g.zeros(count)
		bases := []reg.GPVirtual{x}
		for range count - 1 {
			r := g.GP64()
			g.LEAQ(operand.Mem{Base: bases[len(bases)-1], Index: stride, Scale: 1}, r)
			bases = append(bases, r)
		}
		g.each(cols, func(s span) {
			weight := g.load(w, s)
			for i, base := range bases {
				g.VFMADD231PS(g.source(operand.Mem{Base: base, Index: s.index, Scale: 4}, s), weight, sums[i])
			}
		})
		for i, sum := range sums {
			g.fold(sum, g.VADDPS)
			g.VADDPS(bias, sum, sum)
			g.VMOVSS(sum.AsX(), operand.Mem{Base: y, Disp: 4 * i})
		}
		g.LEAQ(operand.Mem{Base: bases[count-1], Index: stride, Scale: 1}, x)
		g.ADDQ(operand.U8(4*count), y)
		g.SUBQ(operand.U8(count), rows)
	}
	four, single, done := g.label("rows"), g.label("row"), g.label("finished")
	g.Label(four)
	g.CMPQ(rows, operand.U8(4))
	g.JLT(operand.LabelRef(single))
	group(4)
	g.JMP(operand.LabelRef(four))
	g.Label(single)
	g.CMPQ(rows, operand.U8(1))
	g.JLT(operand.LabelRef(done))
	group(1)
	g.JMP(operand.LabelRef(single))
	g.Label(done)
}

// down walks down one vector of columns of x by pairs of rows, the second of
// which has sums of its own so that additions need not wait for one another.
// Body gets the row of the pair, the place in x and one number of d in all lanes.
func (g *vectorGen) down(s span, body func(row int, x operand.Mem, offset reg.GPVirtual, d reg.VecVirtual)) {
	offset, stride, x, d, left := g.GP64(), g.GP64(), g.ptr("x"), g.ptr("d"), g.ptr("rows")
	g.MOVQ(s.index, offset)
	g.SHLQ(operand.U8(2), offset)
	g.Load(g.Param("cols"), stride)
	g.SHLQ(operand.U8(2), stride)
	row := func(i int) {
		spread := g.vec()
		g.VBROADCASTSS(operand.Mem{Base: d}, spread)
		body(i, operand.Mem{Base: x, Index: offset, Scale: 1}, offset, spread)
		g.ADDQ(stride, offset)
		g.ADDQ(operand.U8(4), d)
	}
	pairs, last, done := g.label("pairs"), g.label("last"), g.label("bottom")
	g.Label(pairs)
	g.CMPQ(left, operand.U8(2))
	g.JLT(operand.LabelRef(last))
	row(0)
	row(1)
	g.SUBQ(operand.U8(2), left)
	g.JMP(operand.LabelRef(pairs))
	g.Label(last)
	g.CMPQ(left, operand.U8(1))
	g.JLT(operand.LabelRef(done))
	row(0)
	g.Label(done)
}

// addTo adds both sums to what stands in an argument.
func (g *vectorGen) addTo(name string, sums []reg.VecVirtual, s span) {
	base := g.ptr(name)
	g.VADDPS(sums[1], sums[0], sums[0])
	v := g.load(base, s)
	g.VADDPS(sums[0], v, v)
	g.store(v, base, s)
}

func (g *vectorGen) addWeightedRowsKernel() {
	g.each(g.ptr("cols"), func(s span) {
		sums := g.zeros(2)
		g.down(s, func(row int, x operand.Mem, _ reg.GPVirtual, d reg.VecVirtual) {
			g.VFMADD231PS(g.source(x, s), d, sums[row])
		})
		g.addTo("dst", sums, s)
	})
}

// unitGradKernel walks down a vector of columns with its weight and its two
// gradients in registers.
func (g *vectorGen) unitGradKernel() {
	slope, zero := g.spread("slope"), g.inReg(0)
	g.each(g.ptr("cols"), func(s span) {
		weight := g.load(g.ptr("w"), s)
		weights, biases := g.zeros(2), g.zeros(2)
		dx := g.ptr("dx")
		g.down(s, func(row int, at operand.Mem, offset reg.GPVirtual, d reg.VecVirtual) {
			x, slow := g.loadAt(at, s), g.vec()
			g.VFMADD231PS(x, d, weights[row])
			g.VMULPS(weight, d, d)
			g.VMULPS(slope, d, slow)
			out := g.choose(g.compare(atMost, x, zero), slow, d)
			g.VADDPS(out, biases[row], biases[row])
			g.storeAt(out, operand.Mem{Base: dx, Index: offset, Scale: 1}, s)
		})
		g.addTo("gw", weights, s)
		g.addTo("gb", biases, s)
	})
}
