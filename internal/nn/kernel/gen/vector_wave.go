package main

import (
	"math"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The portable twin in portable_wave.go explains the algorithm; the numbers here must be its.
const waves = 0.159154943

var wavePoly = []float32{6.28318548, -41.3416824, 81.602478, -76.5811691, 39.7598267}

func (g *vectorGen) waveKernel() {
	phase, sign := g.spread("phase"), g.inReg(1<<31)
	scale, quarter, poly := g.num(waves), g.inReg(math.Float32bits(0.25)), g.nums(wavePoly)
	g.unary(func(x reg.VecVirtual) reg.VecVirtual {
		whole, square := g.vec(), g.vec()
		g.VFMADD213PS(phase, scale, x)
		const nearest = operand.U8(0)
		if g.wide {
			g.VRNDSCALEPS(nearest, x, whole)
		} else {
			g.VROUNDPS(nearest, x, whole)
		}
		g.VSUBPS(whole, x, x)
		g.VORPS(sign, x, x) // -|f|
		g.VADDPS(quarter, x, x)
		g.VMULPS(x, x, square)
		p := g.horner(poly, square)
		g.VMULPS(x, p, p)
		return p
	})
}
