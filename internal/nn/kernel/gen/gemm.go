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
	fieldInit               // the start of the sums of the first row
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
		panelFunction{vectorGen: &vectorGen{Context: ctx, wide: p.wide}, panel: p}.generate()
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
	*vectorGen
	panel panelKernel
	args  reg.Register
	masks []operand.Op // by vector, nil where all columns are in use
}

func (f panelFunction) field(offset int) reg.GPVirtual {
	r := f.GP64()
	f.MOVQ(operand.Mem{Base: f.args, Disp: offset}, r)
	return r
}

// vector is the location of vector v in a row of B, of C or of the initial values.
func (f panelFunction) vector(row reg.GPVirtual, v int) (operand.Mem, span) {
	return operand.Mem{Base: row, Disp: 4 * v * f.lanes()}, span{mask: f.masks[v]}
}

func (f panelFunction) generate() {
	ctx := f.Context
	ctx.Function(f.panel.name)
	ctx.Attributes(attr.NOSPLIT)
	ctx.Pragma("noescape")
	ctx.Signature(takesPointer("panel"))
	ctx.Doc(f.panel.name + " computes a panel of a product, see ../gen/gemm.go.")
	f.args = ctx.Load(ctx.Param("p"), ctx.GP64())
	f.masks = make([]operand.Op, f.panel.vectors)
	if f.panel.masked {
		mask := f.field(fieldMask)
		for v := range f.masks {
			if f.wide {
				k := ctx.K()
				ctx.KMOVW(mask.As32(), k)
				f.masks[v] = k
				if v+1 < f.panel.vectors {
					ctx.SHRQ(operand.U8(16), mask)
				}
			} else {
				y := ctx.YMM()
				ctx.VMOVUPS(operand.Mem{Base: mask, Disp: v * 32}, y)
				f.masks[v] = y
			}
		}
	}
	a, c, begin, m := f.field(fieldA), f.field(fieldC), f.field(fieldInit), f.field(fieldM)
	for _, height := range f.panel.heights {
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
	ctx := f.Context
	initRow := f.field(fieldInitRow)
	sums := make([][]reg.VecVirtual, height)
	for i := range sums {
		for v := range f.panel.vectors {
			sums[i] = append(sums[i], f.loadAt(f.vector(begin, v)))
		}
		ctx.ADDQ(initRow, begin)
	}
	if height == f.panel.heights[0] {
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
	for v := range f.panel.vectors {
		row = append(row, f.loadAt(f.vector(b, v)))
	}
	ctx.ADDQ(bRow, b)
	for i := range height {
		at := operand.Mem{Base: rows[i/3]}
		if i%3 > 0 {
			at.Index, at.Scale = aRow, uint8(i%3)
		}
		if f.wide && f.panel.vectors == 1 {
			ctx.VFMADD231PS_BCST(at, row[0], sums[i][0])
			continue
		}
		x := f.vec()
		ctx.VBROADCASTSS(at, x)
		for v := range f.panel.vectors {
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
		for v := range f.panel.vectors {
			ctx.VMULPS(slope, sums[i][v], scaled)
			ctx.VMAXPS(sums[i][v], scaled, scaled)
			at, s := f.vector(c, v)
			f.storeAt(scaled, at, s)
		}
		ctx.ADDQ(cRow, c)
	}
}

// prefetch asks for the rows of C below this tile, which the next tile will
// begin with or write to: in a large matrix they are far away.
func (f panelFunction) prefetch(height int, c reg.GPVirtual) {
	ctx := f.Context
	cRow, at := f.field(fieldCRow), ctx.GP64()
	ctx.IMUL3Q(operand.U8(height), cRow, at)
	ctx.ADDQ(c, at)
	for range height {
		for v := 0; v < 4*f.panel.vectors*f.lanes(); v += 64 {
			ctx.PREFETCHT0(operand.Mem{Base: at, Disp: v})
		}
		ctx.ADDQ(cRow, at)
	}
}
