package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Loads and stores for float32 serve for int32 too: they only move bits.

func (g *vectorGen) addTruncatedKernel() {
	acc, x, n, scale := g.ptr("acc"), g.ptr("x"), g.ptr("n"), g.spread("scale")
	g.each(n, func(s span) {
		v, sum := g.load(x, s), g.load(acc, s)
		g.VMULPS(scale, v, v)
		g.VCVTTPS2DQ(v, v)
		g.VPADDD(v, sum, sum)
		g.store(sum, acc, s)
	})
}

// outerVectors is how many vectors of a row of sums stay in registers while all
// rows of x and d pass.
const outerVectors = 4

// addTruncatedOuterKernel takes one row of the sums after the other.
func (g *vectorGen) addTruncatedOuterKernel() {
	acc, x, left := g.ptr("acc"), g.ptr("x"), g.ptr("in")
	inputs := g.label("inputs")
	g.Label(inputs)
	d, cols := g.ptr("d"), g.ptr("out")
	four, rest := g.label("four"), g.label("rest")
	g.Label(four)
	g.CMPQ(cols, operand.U8(outerVectors*g.lanes()))
	g.JLT(operand.LabelRef(rest))
	zero := g.GP64()
	g.XORL(zero.As32(), zero.As32())
	g.outerRows(acc, x, d, outerVectors, span{index: zero})
	g.ADDQ(operand.U32(4*outerVectors*g.lanes()), acc)
	g.ADDQ(operand.U32(4*outerVectors*g.lanes()), d)
	g.SUBQ(operand.U8(outerVectors*g.lanes()), cols)
	g.JMP(operand.LabelRef(four))
	g.Label(rest)
	g.each(cols, func(s span) { g.outerRows(acc, x, d, 1, s) })
	g.LEAQ(operand.Mem{Base: acc, Index: cols, Scale: 4}, acc)
	g.ADDQ(operand.U8(4), x)
	g.DECQ(left)
	g.JNZ(operand.LabelRef(inputs))
}

// outerRows adds to some vectors of sums the products of one number of each row of
// x and the vectors in that of d. Where the number is 0 there is nothing to add.
func (g *vectorGen) outerRows(acc, x, d reg.GPVirtual, vectors int, s span) {
	at, from, scale, left := g.GP64(), g.GP64(), g.ptr("scales"), g.ptr("rows")
	g.MOVQ(x, at)
	g.LEAQ(operand.Mem{Base: d, Index: s.index, Scale: 4}, from)
	place := func(v int) operand.Mem {
		return operand.Mem{Base: acc, Index: s.index, Scale: 4, Disp: 4 * v * g.lanes()}
	}
	sums := make([]reg.VecVirtual, vectors)
	for v := range sums {
		sums[v] = g.loadAt(place(v), s)
	}
	row, next := g.label("row"), g.label("next")
	g.Label(row)
	bits := g.GP32()
	g.MOVL(operand.Mem{Base: at}, bits)
	g.ADDL(bits, bits) // without the sign
	g.JZ(operand.LabelRef(next))
	number, factor := g.vec(), g.vec()
	g.VBROADCASTSS(operand.Mem{Base: at}, number)
	g.VBROADCASTSS(operand.Mem{Base: scale}, factor)
	for v, sum := range sums {
		p, m := g.vec(), operand.Mem{Base: from, Disp: 4 * v * g.lanes()}
		g.VMULPS(g.source(m, s), number, p)
		g.VMULPS(factor, p, p)
		g.VCVTTPS2DQ(p, p)
		g.VPADDD(p, sum, sum)
	}
	g.Label(next)
	stride := g.ptr("in")
	g.LEAQ(operand.Mem{Base: at, Index: stride, Scale: 4}, at)
	stride = g.ptr("out")
	g.LEAQ(operand.Mem{Base: from, Index: stride, Scale: 4}, from)
	g.ADDQ(operand.U8(4), scale)
	g.DECQ(left)
	g.JNZ(operand.LabelRef(row))
	for v, sum := range sums {
		g.storeAt(sum, place(v), s)
	}
}

// addSquaresKernel takes 32 numbers at a time, each to a sum of its own. A square
// is exact, so that it does not matter that it is fused with the addition.
func (g *vectorGen) addSquaresKernel() {
	s, x, n := g.ptr("s"), g.ptr("x"), g.ptr("n")
	const count = 32
	wide := g.lanes() / 2 // float64 numbers of a vector
	sums := make([]reg.VecVirtual, count/wide)
	place := func(i int) operand.Mem { return operand.Mem{Base: s, Disp: 8 * i * wide} }
	for i := range sums {
		sums[i] = g.vec()
		g.VMOVUPD(place(i), sums[i])
	}
	loop, done := g.label("loop"), g.label("done")
	g.Label(loop)
	g.CMPQ(n, operand.U8(count))
	g.JLT(operand.LabelRef(done))
	for i, sum := range sums {
		v := g.vec()
		g.VCVTPS2PD(operand.Mem{Base: x, Disp: 4 * i * wide}, v)
		g.VFMADD231PD(v, v, sum)
	}
	g.ADDQ(operand.U32(4*count), x)
	g.SUBQ(operand.U8(count), n)
	g.JMP(operand.LabelRef(loop))
	g.Label(done)
	for i, sum := range sums {
		g.VMOVUPD(sum, place(i))
	}
}
