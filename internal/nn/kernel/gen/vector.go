package main

import (
	"fmt"
	"math"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// vectorKernels are the element-wise kernels and the sums, each generated for
// both widths of vectors. SIGNATURE is without the name.
var vectorKernels = []struct {
	name, signature string
	generate        func(*vectorGen)
}{
	{"sigmoid", "func(dst, x *float32, n int)", (*vectorGen).sigmoidKernel},
	{"tanh", "func(dst, x *float32, n int)", (*vectorGen).tanhKernel},
	{"wave", "func(dst, x *float32, n int, phase float32)", (*vectorGen).waveKernel},
	{"softplus", "func(dst, x *float32, n int)", (*vectorGen).softplusKernel},
	{"softmax", "func(x *float32, rows, cols, stride int)", (*vectorGen).softmaxKernel},
	{"leaky", "func(dst, x *float32, n int, slope float32, keep uint32)", (*vectorGen).leakyKernel},
	{"leakyGrad", "func(dx, dy, y *float32, n int, slope float32, keep uint32)", (*vectorGen).leakyGradKernel},
	{"addScaled", "func(dst, x *float32, n int, a float32)", (*vectorGen).addScaledKernel},
	{"scale", "func(dst *float32, n int, a float32)", (*vectorGen).scaleKernel},
	{"lerp", "func(dst, x *float32, n int, keep, take float32)", (*vectorGen).lerpKernel},
	{"addRows", "func(dst, x *float32, rows, cols int)", (*vectorGen).addRowsKernel},
	{"rowDots", "func(y, x, w *float32, rows, cols int, bias float32)", (*vectorGen).rowDotsKernel},
	{"addWeightedRows", "func(dst, x, d *float32, rows, cols int)", (*vectorGen).addWeightedRowsKernel},
	{"unitGrad", "func(dx, x, d, w, gw, gb *float32, rows, cols int, slope float32)", (*vectorGen).unitGradKernel},
	{"addTruncated", "func(acc *int32, x *float32, n int, scale float32)", (*vectorGen).addTruncatedKernel},
	{"addTruncatedOuter", "func(acc *int32, x, d, scales *float32, rows, in, out int)",
		(*vectorGen).addTruncatedOuterKernel},
	{"addSquares", "func(s *[32]float64, x *float32, n int)", (*vectorGen).addSquaresKernel},
	{"adam", "func(w, m, v, grad *float32, n int, c *[8]float32)", (*vectorGen).adamKernel},
	{"sgd", "func(w, grad *float32, n int, keep, rate float32)", (*vectorGen).sgdKernel},
	{"momentum", "func(w, m, grad *float32, n int, keep, rate, momentum float32)", (*vectorGen).momentumKernel},
}

func vector(ctx *build.Context) {
	p := &pool{at: map[uint32]int{}}
	for _, wide := range []bool{true, false} {
		for _, k := range vectorKernels {
			g := &vectorGen{Context: ctx, pool: p, wide: wide, held: map[uint32]operand.Op{}}
			name := k.name + "256"
			if wide {
				name = k.name + "512"
			}
			ctx.Function(name)
			ctx.Doc(fmt.Sprintf("%s is %s with vectors of %s bits, see ../gen/vector.go.",
				name, k.name, name[len(k.name):]))
			ctx.Pragma("noescape")
			ctx.Attributes(attr.NOSPLIT)
			ctx.SignatureExpr(k.signature)
			k.generate(g)
			ctx.VZEROUPPER()
			ctx.RET()
		}
	}
	p.write(ctx)
}

type vectorGen struct {
	*build.Context
	pool   *pool
	wide   bool // AVX-512
	held   map[uint32]operand.Op
	inRegs int // constants in registers
	labels int
}

// narrowRegs is how many of the 16 registers of AVX2 hold constants; further
// constants are read from memory by the instructions that use them.
const narrowRegs = 7

func (g *vectorGen) lanes() int {
	if g.wide {
		return 16
	}
	return 8
}

func (g *vectorGen) vec() reg.VecVirtual {
	if g.wide {
		return g.ZMM()
	}
	return g.YMM()
}

// word is a constant of 32 bits in all lanes, fit to be the first operand of an
// instruction. Constants are made before the loops.
func (g *vectorGen) word(bits uint32) operand.Op {
	if op, ok := g.held[bits]; ok {
		return op
	}
	if !g.wide && g.inRegs >= narrowRegs {
		return g.pool.mem(bits)
	}
	return g.inReg(bits)
}

// num is word for a number.
func (g *vectorGen) num(x float32) operand.Op { return g.word(math.Float32bits(x)) }

// inReg is word in a register, fit to be any operand that is not written.
func (g *vectorGen) inReg(bits uint32) operand.Op {
	if op, ok := g.held[bits]; ok {
		return op
	}
	r := g.vec()
	g.VBROADCASTSS(g.pool.mem(bits), r)
	g.held[bits] = r
	g.inRegs++
	return r
}

// nums are several constants. The last is in a register.
func (g *vectorGen) nums(xs []float32) []operand.Op {
	ops := make([]operand.Op, len(xs))
	ops[len(xs)-1] = g.inReg(math.Float32bits(xs[len(xs)-1]))
	for i, x := range xs[:len(xs)-1] {
		ops[i] = g.num(x)
	}
	return ops
}

// ptr loads an argument that is a pointer or an int.
func (g *vectorGen) ptr(name string) reg.GPVirtual {
	r := g.GP64()
	g.Load(g.Param(name), r)
	return r
}

// spread copies an argument of 32 bits to all lanes.
func (g *vectorGen) spread(name string) reg.VecVirtual {
	arg, err := g.Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	r := g.vec()
	g.VBROADCASTSS(arg.Addr, r)
	return r
}

func (g *vectorGen) label(name string) string {
	g.labels++
	return fmt.Sprintf("%s%d", name, g.labels)
}

// span is a vector's worth of elements, of which mask selects some unless nil.
type span struct {
	index reg.GPVirtual
	mask  operand.Op
}

// each runs body over n elements: whole vectors, then the rest with a mask.
func (g *vectorGen) each(n reg.GPVirtual, body func(s span)) {
	loop, tail, done := g.label("loop"), g.label("tail"), g.label("done")
	i, end := g.GP64(), g.GP64()
	g.XORL(i.As32(), i.As32())
	g.MOVQ(n, end)
	g.ANDQ(operand.I8(-g.lanes()), end)
	g.JZ(operand.LabelRef(tail))
	g.Label(loop)
	body(span{index: i})
	g.ADDQ(operand.U8(g.lanes()), i)
	g.CMPQ(i, end)
	g.JB(operand.LabelRef(loop))
	g.Label(tail)
	rest := g.GP64()
	g.MOVQ(n, rest)
	g.SUBQ(i, rest)
	g.JZ(operand.LabelRef(done))
	body(span{i, g.mask(rest)})
	g.Label(done)
}

// mask selects the first rest lanes, fewer than all. It changes rest.
func (g *vectorGen) mask(rest reg.GPVirtual) operand.Op {
	if g.wide {
		k, bits := g.K(), g.GP32()
		g.MOVL(operand.U32(math.MaxUint32), bits)
		g.BZHIL(rest.As32(), bits, bits)
		g.KMOVW(bits, k)
		return k
	}
	m, table := g.YMM(), g.GP64()
	g.LEAQ(g.pool.masks(), table)
	g.NEGQ(rest)
	g.VMOVUPS(operand.Mem{Base: table, Index: rest, Scale: 4}, m)
	return m
}

// load reads the elements of a span, 0 where the mask does not select.
func (g *vectorGen) load(base reg.GPVirtual, s span) reg.VecVirtual {
	return g.loadAt(operand.Mem{Base: base, Index: s.index, Scale: 4}, s)
}

func (g *vectorGen) store(v reg.VecVirtual, base reg.GPVirtual, s span) {
	g.storeAt(v, operand.Mem{Base: base, Index: s.index, Scale: 4}, s)
}

// loadAt and storeAt are load and store at another place than the span's.
func (g *vectorGen) loadAt(m operand.Mem, s span) reg.VecVirtual {
	v := g.vec()
	switch {
	case s.mask == nil:
		g.VMOVUPS(m, v)
	case g.wide:
		g.VMOVUPS_Z(m, s.mask, v)
	default:
		g.VMASKMOVPS(m, s.mask, v)
	}
	return v
}

// source is what stands at a place, fit to be the first operand of an instruction: the place itself
// where no mask selects.
func (g *vectorGen) source(m operand.Mem, s span) operand.Op {
	if s.mask == nil {
		return m
	}
	return g.loadAt(m, s)
}

func (g *vectorGen) storeAt(v reg.VecVirtual, m operand.Mem, s span) {
	switch {
	case s.mask == nil:
		g.VMOVUPS(v, m)
	case g.wide:
		g.VMOVUPS(v, s.mask, m)
	default:
		g.VMASKMOVPS(v, s.mask, m)
	}
}
