package main

import (
	"fmt"
	"go/token"
	"go/types"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/gotypes"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Offsets of the fields of gemm's type panel.
const (
	fieldA       = 8 * iota // of the first row
	fieldB                  // of the first row
	fieldC                  // of the first row
	fieldInit               // what the sums begin with, of the first row
	fieldARow               // bytes from one row of A to the next
	fieldACol               // bytes from one number of a row of A to the next
	fieldBRow               // bytes from one row of B to the next
	fieldCRow               // bytes
	fieldInitRow            // bytes
	fieldM                  // rows
	fieldK                  // inner length, at least 1
	fieldMask               // columns in use: 16 or 32 mask bits, or address of 16 words
	fieldSlope              // of the rectifier, as float32
)

// panelKernel computes m rows and up to `vectors` vectors of columns of
//
//	C = rectify(init + A B)
//
// in tiles, the tallest first. A tile's sums stay in registers: height times
// vectors of them, and the rest must do for a row of B, numbers of A and masks.
type panelKernel struct {
	name    string
	wide    bool // AVX-512
	vectors int
	masked  bool
	heights []int
}

var panelKernels = []panelKernel{
	{"panel512x32", true, 2, false, []int{12, 8, 4, 2, 1}},
	{"panel512x32masked", true, 2, true, []int{12, 8, 4, 2, 1}},
	{"panel512x16masked", true, 1, true, []int{12, 8, 4, 2, 1}},
	{"panel256x16", false, 2, false, []int{6, 4, 2, 1}},
	{"panel256x16masked", false, 2, true, []int{4, 2, 1}},
	{"panel256x8masked", false, 1, true, []int{6, 4, 2, 1}},
}

func gemm(ctx *build.Context) {
	for _, p := range panelKernels {
		panelFunction{panelKernel: p, ctx: ctx}.generate()
	}
}

// takesPointer is the signature func(p *name) of a type of package kernel.
func takesPointer(name string) *gotypes.Signature {
	named := types.NewNamed(types.NewTypeName(token.NoPos, nil, name, nil), types.NewStruct(nil, nil), nil)
	p := types.NewParam(token.NoPos, nil, "p", types.NewPointer(named))
	return gotypes.NewSignature(nil, types.NewSignatureType(nil, nil, nil, types.NewTuple(p), nil, false))
}

// panelFunction is the state while one kernel is written.
type panelFunction struct {
	panelKernel
	ctx   *build.Context
	args  reg.Register
	masks []reg.VecVirtual // AVX2
	bits  []reg.OpmaskVirtual
}

func (f panelFunction) vec() reg.VecVirtual {
	if f.wide {
		return f.ctx.ZMM()
	}
	return f.ctx.YMM()
}

func (f panelFunction) bytes() int {
	if f.wide {
		return 64
	}
	return 32
}

func (f panelFunction) field(offset int) reg.GPVirtual {
	r := f.ctx.GP64()
	f.ctx.MOVQ(operand.Mem{Base: f.args, Disp: offset}, r)
	return r
}

// load reads vector v of a row of B or of the initial values.
func (f panelFunction) load(at operand.Mem, v int, into reg.VecVirtual) {
	at.Disp += v * f.bytes()
	switch {
	case !f.masked:
		f.ctx.VMOVUPS(at, into)
	case f.wide:
		f.ctx.VMOVUPS_Z(at, f.bits[v], into)
	default:
		f.ctx.VMASKMOVPS(at, f.masks[v], into)
	}
}

func (f panelFunction) store(from reg.VecVirtual, at operand.Mem, v int) {
	at.Disp += v * f.bytes()
	switch {
	case !f.masked:
		f.ctx.VMOVUPS(from, at)
	case f.wide:
		f.ctx.VMOVUPS(from, f.bits[v], at)
	default:
		f.ctx.VMASKMOVPS(from, f.masks[v], at)
	}
}

func (f panelFunction) generate() {
	ctx := f.ctx
	ctx.Function(f.name)
	ctx.Attributes(attr.NOSPLIT)
	ctx.Pragma("noescape")
	ctx.Signature(takesPointer("panel"))
	ctx.Doc(f.name + " computes a panel of a product, see ../gen/gemm.go.")
	f.args = ctx.Load(ctx.Param("p"), ctx.GP64())
	if f.masked {
		mask := f.field(fieldMask)
		for v := range f.vectors {
			if f.wide {
				k := ctx.K()
				ctx.KMOVW(mask.As32(), k)
				f.bits = append(f.bits, k)
				if v+1 < f.vectors {
					ctx.SHRQ(operand.U8(16), mask)
				}
			} else {
				y := ctx.YMM()
				ctx.VMOVUPS(operand.Mem{Base: mask, Disp: v * 32}, y)
				f.masks = append(f.masks, y)
			}
		}
	}
	a, c, begin, m := f.field(fieldA), f.field(fieldC), f.field(fieldInit), f.field(fieldM)
	for _, height := range f.heights {
		again, next := fmt.Sprintf("tiles%d", height), fmt.Sprintf("below%d", height)
		ctx.Label(again)
		ctx.CMPQ(m, operand.U8(height))
		ctx.JL(operand.LabelRef(next))
		f.tile(height, a, c, begin)
		ctx.SUBQ(operand.U8(height), m)
		ctx.JMP(operand.LabelRef(again))
		ctx.Label(next)
	}
	ctx.VZEROUPPER()
	ctx.RET()
}

// tile computes the next rows and moves a, c and begin on.
func (f panelFunction) tile(height int, a, c, begin reg.GPVirtual) {
	ctx := f.ctx
	initRow := f.field(fieldInitRow)
	sums := make([][]reg.VecVirtual, height)
	for i := range sums {
		for v := range f.vectors {
			sum := f.vec()
			f.load(operand.Mem{Base: begin}, v, sum)
			sums[i] = append(sums[i], sum)
		}
		ctx.ADDQ(initRow, begin)
	}
	if height == f.heights[0] {
		f.prefetch(height, c)
	}
	// Rows of A by threes: the second and third are reached by an index.
	aRow, aCol, b, bRow, k := f.field(fieldARow), f.field(fieldACol), f.field(fieldB), f.field(fieldBRow),
		f.field(fieldK)
	var rows []reg.GPVirtual
	for i := 0; i < height; i += 3 {
		r := ctx.GP64()
		ctx.MOVQ(a, r)
		rows = append(rows, r)
		for range min(3, height-i) {
			ctx.ADDQ(aRow, a)
		}
	}
	loop := fmt.Sprintf("inner%d", height)
	ctx.Label(loop)
	var row []reg.VecVirtual
	for v := range f.vectors {
		x := f.vec()
		f.load(operand.Mem{Base: b}, v, x)
		row = append(row, x)
	}
	ctx.ADDQ(bRow, b)
	for i := range height {
		at := operand.Mem{Base: rows[i/3]}
		if i%3 > 0 {
			at.Index, at.Scale = aRow, uint8(i%3)
		}
		if f.wide && f.vectors == 1 {
			ctx.VFMADD231PS_BCST(at, row[0], sums[i][0])
			continue
		}
		x := f.vec()
		ctx.VBROADCASTSS(at, x)
		for v := range f.vectors {
			ctx.VFMADD231PS(x, row[v], sums[i][v])
		}
	}
	for _, r := range rows {
		ctx.ADDQ(aCol, r)
	}
	ctx.DECQ(k)
	ctx.JNZ(operand.LabelRef(loop))

	// max(slope x, x) is the leaky rectifier; it returns x where one is NaN.
	slope, scaled := f.vec(), f.vec()
	ctx.VBROADCASTSS(operand.Mem{Base: f.args, Disp: fieldSlope}, slope)
	cRow := f.field(fieldCRow)
	for i := range height {
		for v := range f.vectors {
			ctx.VMULPS(slope, sums[i][v], scaled)
			ctx.VMAXPS(sums[i][v], scaled, scaled)
			f.store(scaled, operand.Mem{Base: c}, v)
		}
		ctx.ADDQ(cRow, c)
	}
}

// prefetch asks for the rows of C below this tile, which the next tile will
// begin with or write to: in a large matrix they are far away.
func (f panelFunction) prefetch(height int, c reg.GPVirtual) {
	ctx := f.ctx
	cRow, at := f.field(fieldCRow), ctx.GP64()
	ctx.IMUL3Q(operand.U8(height), cRow, at)
	ctx.ADDQ(c, at)
	for range height {
		for v := 0; v < f.vectors*f.bytes(); v += 64 {
			ctx.PREFETCHT0(operand.Mem{Base: at, Disp: v})
		}
		ctx.ADDQ(cRow, at)
	}
}
