package main

import (
	"math"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
)

// constants is the name of the read-only data: masks, the numbers 0 to 15, and 8
// copies of each constant.
var constants = operand.NewStaticSymbol("vectorConstants")

// pool collects the constants of all kernels.
type pool struct {
	at   map[uint32]int
	bits []uint32
}

// mem is where 8 copies of a constant stand.
func (p *pool) mem(bits uint32) operand.Mem {
	at, ok := p.at[bits]
	if !ok {
		at = len(p.bits)
		p.at[bits] = at
		p.bits = append(p.bits, bits)
	}
	return operand.NewDataAddr(constants, 160+32*at)
}

// masks is the address of 8 words of zeros, with 8 words of ones before and after them.
func (p *pool) masks() operand.Mem { return operand.NewDataAddr(constants, 32) }

// count is the address of the numbers from 0 to 15.
func (p *pool) count() operand.Mem { return operand.NewDataAddr(constants, 96) }

func (p *pool) write(ctx *build.Context) {
	ctx.StaticGlobal(constants.Name)
	ctx.DataAttributes(attr.RODATA | attr.NOPTR)
	for _, mask := range []uint32{math.MaxUint32, 0, math.MaxUint32} {
		for range 8 {
			ctx.AppendDatum(operand.U32(mask))
		}
	}
	for i := range 16 {
		ctx.AppendDatum(operand.U32(i))
	}
	for _, bits := range p.bits {
		for range 8 {
			ctx.AppendDatum(operand.U32(bits))
		}
	}
}
