package main

import (
	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// transpose writes the kernel that turns 8 rows of 8 times `blocks` numbers into
// 8 times `blocks` rows of 8. AVX does for both levels: with it, a product waits
// for its arithmetic and not for this.
func transpose(ctx *build.Context) {
	ctx.Function("transpose8")
	ctx.Attributes(attr.NOSPLIT)
	ctx.Pragma("noescape")
	ctx.SignatureExpr("func(dst, src *float32, dstRow, srcRow, blocks int)")
	ctx.Doc("transpose8 turns 8 rows of 8 times blocks numbers, at least 1, into rows of 8.",
		"Rows are dstRow and srcRow bytes apart.")
	dst, src := ctx.Load(ctx.Param("dst"), ctx.GP64()), ctx.Load(ctx.Param("src"), ctx.GP64())
	dstRow, srcRow := ctx.Load(ctx.Param("dstRow"), ctx.GP64()), ctx.Load(ctx.Param("srcRow"), ctx.GP64())
	blocks := ctx.Load(ctx.Param("blocks"), ctx.GP64())

	lower := ctx.GP64() // row 4 of the block
	ctx.LEAQ(operand.Mem{Base: src, Index: srcRow, Scale: 4}, lower)
	ctx.Label("block")
	for half := range 2 { // of the rows written
		// Lanes hold rows i and i+4, so that a transposition within lanes is all.
		var in [4]reg.VecVirtual
		top, low := ctx.GP64(), ctx.GP64()
		ctx.MOVQ(src, top)
		ctx.MOVQ(lower, low)
		for i := range in {
			in[i] = ctx.YMM()
			ctx.VMOVUPS(operand.Mem{Base: top, Disp: 16 * half}, in[i].AsX())
			ctx.VINSERTF128(operand.U8(1), operand.Mem{Base: low, Disp: 16 * half}, in[i], in[i])
			if i < 3 {
				ctx.ADDQ(srcRow, top)
				ctx.ADDQ(srcRow, low)
			}
		}
		low01, high01, low23, high23 := ctx.YMM(), ctx.YMM(), ctx.YMM(), ctx.YMM()
		ctx.VUNPCKLPS(in[1], in[0], low01)
		ctx.VUNPCKHPS(in[1], in[0], high01)
		ctx.VUNPCKLPS(in[3], in[2], low23)
		ctx.VUNPCKHPS(in[3], in[2], high23)
		for _, pair := range [][2]reg.VecVirtual{{low01, low23}, {high01, high23}} {
			for _, pick := range []uint8{0x44, 0xee} { // the lower, the upper halves of both
				out := ctx.YMM()
				ctx.VSHUFPS(operand.U8(pick), pair[1], pair[0], out)
				ctx.VMOVUPS(out, operand.Mem{Base: dst})
				ctx.ADDQ(dstRow, dst)
			}
		}
	}
	ctx.ADDQ(operand.U8(32), src)
	ctx.ADDQ(operand.U8(32), lower)
	ctx.DECQ(blocks)
	ctx.JNZ(operand.LabelRef("block"))
	ctx.VZEROUPPER()
	ctx.RET()
}
