package main

import (
	"math"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// softmaxGen is the kernel of softmax. A masked store delays every later load of
// the bytes around it, also of those that the mask leaves alone, until it reached
// the cache: the next row. Therefore no store reaches beyond the end of its row.
type softmaxGen struct {
	*vectorGen
	x, rows, cols, stride, zero reg.GPVirtual
	exponential
	one, lowest reg.VecVirtual
}

func (g *vectorGen) softmaxKernel() {
	s := softmaxGen{
		vectorGen: g, x: g.ptr("x"), rows: g.ptr("rows"), cols: g.ptr("cols"), stride: g.ptr("stride"), zero: g.GP64(),
		exponential: g.newExp(), one: g.vec(), lowest: g.vec(),
	}
	g.VBROADCASTSS(g.pool.mem(math.Float32bits(1)), s.one)
	g.VBROADCASTSS(g.pool.mem(math.Float32bits(float32(math.Inf(-1)))), s.lowest)
	g.SHLQ(operand.U8(2), s.stride)
	g.XORL(s.zero.As32(), s.zero.As32())
	done, large := g.label("end"), g.label("large")
	g.TESTQ(s.rows, s.rows)
	g.JZ(operand.LabelRef(done))
	g.CMPQ(s.cols, operand.U8(g.lanes()))
	g.JGE(operand.LabelRef(large))
	s.eachRow(s.small())
	g.JMP(operand.LabelRef(done))
	g.Label(large)
	s.eachRow(s.large())
	g.Label(done)
}

func (s softmaxGen) eachRow(body func()) {
	row := s.label("row")
	s.Label(row)
	body()
	s.ADDQ(s.stride, s.x)
	s.DECQ(s.rows)
	s.JNZ(operand.LabelRef(row))
}

// small is for rows of less than a vector. They are loaded into the first lanes,
// and rotated into the last ones to be stored.
func (s softmaxGen) small() func() {
	rest, from := s.GP64(), s.GP64()
	s.MOVQ(s.cols, rest)
	first := span{s.zero, s.mask(rest)}
	turn := s.vec()
	s.rotation(turn)
	s.LEAQ(operand.Mem{Base: s.cols, Disp: -s.lanes()}, from)
	last := s.lastLanes(s.cols)
	return func() {
		v := s.load(s.x, first)
		top := s.choose(first.mask, v, s.lowest)
		s.fold(top, s.VMAXPS)
		s.VSUBPS(top, v, v)
		p, sum := s.exp(s.exponential, v, first.mask), s.vec()
		s.VMOVAPS(p, sum)
		s.fold(sum, s.VADDPS)
		s.VDIVPS(sum, p, p)
		s.VPERMPS(p, turn, p)
		s.store(p, s.x, span{from, last})
	}
}

// large is for longer rows: whole vectors, and then the last vector of the row,
// which overlaps them, stays in a register.
func (s softmaxGen) large() func() {
	whole, from, rest := s.GP64(), s.GP64(), s.GP64()
	s.LEAQ(operand.Mem{Base: s.cols, Disp: -1}, whole)
	s.ANDQ(operand.I8(-s.lanes()), whole)
	s.LEAQ(operand.Mem{Base: s.cols, Disp: -s.lanes()}, from)
	s.MOVQ(s.cols, rest)
	s.SUBQ(whole, rest)
	end := span{from, s.lastLanes(rest)}
	i := s.GP64()
	each := func(body func(at span)) {
		loop, done := s.label("loop"), s.label("done")
		s.XORL(i.As32(), i.As32())
		s.TESTQ(whole, whole)
		s.JZ(operand.LabelRef(done))
		s.Label(loop)
		body(span{index: i})
		s.ADDQ(operand.U8(s.lanes()), i)
		s.CMPQ(i, whole)
		s.JB(operand.LabelRef(loop))
		s.Label(done)
	}
	return func() {
		last, top, sum, share := s.load(s.x, span{index: from}), s.vec(), s.vec(), s.vec()
		s.VMOVAPS(last, top)
		each(func(at span) { s.VMAXPS(s.load(s.x, at), top, top) })
		s.fold(top, s.VMAXPS)
		s.VSUBPS(top, last, last)
		p := s.exp(s.exponential, last, end.mask)
		s.VMOVAPS(p, sum)
		each(func(at span) {
			v := s.load(s.x, at)
			s.VSUBPS(top, v, v)
			e := s.exp(s.exponential, v, nil)
			s.VADDPS(e, sum, sum)
			s.store(e, s.x, at)
		})
		s.fold(sum, s.VADDPS)
		s.VDIVPS(sum, s.one, share)
		each(func(at span) {
			v := s.load(s.x, at)
			s.VMULPS(share, v, v)
			s.store(v, s.x, at)
		})
		s.VMULPS(share, p, p)
		s.store(p, s.x, end)
	}
}

// rotation makes the order of lanes that moves the first `cols` to the end.
func (s softmaxGen) rotation(turn reg.VecVirtual) {
	arg, err := s.Param("cols").Resolve()
	if err != nil {
		panic(err)
	}
	s.VPBROADCASTD(arg.Addr, turn)
	s.VPADDD(s.pool.count(), turn, turn)
}

// lastLanes selects the last n lanes, at least one.
func (s softmaxGen) lastLanes(n reg.GPVirtual) operand.Op {
	if s.wide {
		k, bits, shift := s.K(), s.GP32(), s.GP32()
		s.MOVL(operand.U32(s.lanes()), shift)
		s.SUBL(n.As32(), shift)
		s.MOVL(operand.U32(math.MaxUint16), bits)
		s.SHLXL(shift, bits, bits)
		s.KMOVW(bits, k)
		return k
	}
	m, table := s.YMM(), s.GP64()
	s.LEAQ(s.pool.masks(), table)
	s.VMOVUPS(operand.Mem{Base: table, Index: n, Scale: 4}, m)
	return m
}
