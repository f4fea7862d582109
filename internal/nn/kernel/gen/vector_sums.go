package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// fold combines the lanes of v in pairs, far ones first, and leaves the result in
// all of them.
func (g *vectorGen) fold(v reg.VecVirtual, combine func(ops ...operand.Op)) {
	step := func(swap func(t reg.VecVirtual)) {
		t := g.vec()
		swap(t)
		combine(t, v, v)
	}
	if g.wide {
		step(func(t reg.VecVirtual) { g.VSHUFF64X2(operand.U8(0x4e), v, v, t) })
		step(func(t reg.VecVirtual) { g.VSHUFF64X2(operand.U8(0xb1), v, v, t) })
	} else {
		step(func(t reg.VecVirtual) { g.VPERM2F128(operand.U8(1), v, v, t) })
	}
	step(func(t reg.VecVirtual) { g.VPERMILPS(operand.U8(0x4e), v, t) })
	step(func(t reg.VecVirtual) { g.VPERMILPS(operand.U8(0xb1), v, t) })
}

func (g *vectorGen) zeros(count int) []reg.VecVirtual {
	out := make([]reg.VecVirtual, count)
	for i := range out {
		out[i] = g.vec()
		g.VXORPS(out[i], out[i], out[i])
	}
	return out
}

// add4 leaves (s0 + s1) + (s2 + s3) in s0.
func (g *vectorGen) add4(s []reg.VecVirtual) {
	g.VADDPS(s[1], s[0], s[0])
	g.VADDPS(s[3], s[2], s[2])
	g.VADDPS(s[2], s[0], s[0])
}

// addRowsKernel walks down two vectors of columns at a time, and one at the end.
func (g *vectorGen) addRowsKernel() {
	dst, x, rows, cols := g.ptr("dst"), g.ptr("x"), g.ptr("rows"), g.ptr("cols")
	stride, stride3 := g.GP64(), g.GP64()
	g.MOVQ(cols, stride)
	g.SHLQ(operand.U8(2), stride)
	g.LEAQ(operand.Mem{Base: stride, Index: stride, Scale: 2}, stride3)
	walk := func(wide bool, s span) { g.walkRows(dst, x, rows, stride, stride3, wide, s) }

	pairs, rest := g.label("pairs"), g.label("rest")
	g.Label(pairs)
	g.CMPQ(cols, operand.U8(2*g.lanes()))
	g.JLT(operand.LabelRef(rest))
	zero := g.GP64()
	g.XORL(zero.As32(), zero.As32())
	walk(true, span{index: zero})
	g.ADDQ(operand.U32(8*g.lanes()), x)
	g.ADDQ(operand.U32(8*g.lanes()), dst)
	g.SUBQ(operand.U8(2*g.lanes()), cols)
	g.JMP(operand.LabelRef(pairs))
	g.Label(rest)
	g.each(cols, func(s span) { walk(false, s) })
}

// walkRows adds the columns of a span, and of the next one too if pair, to dst.
// Groups of four rows go to four sums, what is left to the first.
func (g *vectorGen) walkRows(dst, x, rows, stride, stride3 reg.GPVirtual, pair bool, s span) {
	vectors := 1
	if pair {
		vectors = 2
	}
	row, left := g.GP64(), g.GP64()
	g.LEAQ(operand.Mem{Base: x, Index: s.index, Scale: 4}, row)
	g.MOVQ(rows, left)
	sums := g.zeros(4 * vectors)
	addRow := func(m operand.Mem, i int) {
		for v := range vectors {
			sum := sums[4*v+i]
			g.VADDPS(g.source(m.Offset(4*v*g.lanes()), s), sum, sum)
		}
	}
	four, single, done := g.label("rows"), g.label("row"), g.label("summed")
	g.SUBQ(operand.U8(4), left)
	g.JLT(operand.LabelRef(single))
	g.Label(four)
	addRow(operand.Mem{Base: row}, 0)
	addRow(operand.Mem{Base: row, Index: stride, Scale: 1}, 1)
	addRow(operand.Mem{Base: row, Index: stride, Scale: 2}, 2)
	addRow(operand.Mem{Base: row, Index: stride3, Scale: 1}, 3)
	g.LEAQ(operand.Mem{Base: row, Index: stride, Scale: 4}, row)
	g.SUBQ(operand.U8(4), left)
	g.JGE(operand.LabelRef(four))
	g.Label(single)
	g.ADDQ(operand.U8(4), left)
	g.JZ(operand.LabelRef(done))
	again := g.label("again")
	g.Label(again)
	addRow(operand.Mem{Base: row}, 0)
	g.ADDQ(stride, row)
	g.DECQ(left)
	g.JNZ(operand.LabelRef(again))
	g.Label(done)
	at := g.GP64()
	g.LEAQ(operand.Mem{Base: dst, Index: s.index, Scale: 4}, at)
	zero := g.GP64()
	g.XORL(zero.As32(), zero.As32())
	for v := range vectors {
		part := span{zero, s.mask}
		if v > 0 {
			g.ADDQ(operand.U32(4*g.lanes()), at)
		}
		g.add4(sums[4*v:])
		d := g.load(at, part)
		g.VADDPS(sums[4*v], d, d)
		g.store(d, at, part)
	}
}
