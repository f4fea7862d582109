package vector

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/conclave-dp/conclave/internal/nn/kernel/kerneltest"
)

// near fails unless got is within some roundings of magnitude of want.
func near(t *rapid.T, what string, got float32, want, magnitude float64, terms int) {
	if bound := (float64(terms) + 4) * 0x1p-24 * magnitude; !(math.Abs(float64(got)-want) <= bound) {
		t.Fatalf("%s is %v, want %v within %v", what, got, want, bound)
	}
}

// The three steps of a unit against sums in float64, at all shapes.
func TestUnit(t *testing.T) {
	kerneltest.Check(t, func(t *rapid.T) {
		rows := rapid.OneOf(rapid.IntRange(0, 9), rapid.IntRange(0, 70)).Draw(t, "rows")
		cols := rapid.OneOf(rapid.IntRange(0, 40), rapid.IntRange(0, 150)).Draw(t, "cols")
		x, _ := kerneltest.DrawVector(t, "x", rows*cols)
		for i := 0; i < len(x); i += 5 { // what a rectifier gives may be 0
			x[i] = float32(math.Copysign(0, float64(i%2)-0.5))
		}
		w, _ := kerneltest.DrawVector(t, "w", cols)
		d, _ := kerneltest.DrawVector(t, "d", rows)
		y, guardY := kerneltest.DrawVector(t, "y", rows)
		dst, guardDst := kerneltest.DrawVector(t, "dst", cols)
		gw, guardW := kerneltest.DrawVector(t, "gw", cols)
		gb, guardB := kerneltest.DrawVector(t, "gb", cols)
		dx, guardX := kerneltest.DrawVector(t, "dx", rows*cols)
		before := [][]float32{append([]float32(nil), dst...), append([]float32(nil), gw...),
			append([]float32(nil), gb...)}
		const bias, slope = 0.25, 0.2
		RowDots(y, x, w, bias)
		AddWeightedRows(dst, x, d)
		UnitGrad(dx, x, d, w, gw, gb, slope)
		for _, guard := range []func() error{guardY, guardDst, guardW, guardB, guardX} {
			if err := guard(); err != nil {
				t.Fatal(err)
			}
		}
		for i := range rows {
			want, size := bias, bias
			for j := range cols {
				term := float64(x[i*cols+j]) * float64(w[j])
				want, size = want+term, size+math.Abs(term)
			}
			near(t, "output", y[i], want, size, cols)
		}
		for j := range cols {
			sumW, sumB := 0.0, 0.0
			sizeW, sizeB := 0.0, 0.0
			for i := range rows {
				g := float64(d[i]) * float64(w[j])
				if x[i*cols+j] <= 0 {
					g *= float64(float32(slope))
				}
				near(t, "input gradient", dx[i*cols+j], g, math.Abs(g), 2)
				term := float64(d[i]) * float64(x[i*cols+j])
				sumW, sizeW = sumW+term, sizeW+math.Abs(term)
				sumB, sizeB = sumB+g, sizeB+math.Abs(g)
			}
			for k, got := range []float32{dst[j], gw[j], gb[j]} {
				sum, size := sumW, sizeW
				if k == 2 {
					sum, size = sumB, sizeB
				}
				begin := float64(before[k][j])
				near(t, "sum", got, begin+sum, math.Abs(begin)+size, rows+4)
			}
		}
		UnitGrad(x, x, d, w, gw, gb, slope)
		for i := range x {
			if x[i] != dx[i] {
				t.Fatalf("in place element %d is %v, else %v", i, x[i], dx[i])
			}
		}
	})
}

// The steps of a unit at the ends of readable memory.
func TestUnitAtTheEndsOfMemory(t *testing.T) {
	const most = 40
	memory := make([]*kerneltest.Memory, 7)
	for i := range memory {
		memory[i] = kerneltest.NewMemory(t, most*most)
	}
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(3, 4))
		for rows := range most {
			for cols := range most {
				vector := func(i, n int) []float32 { return memory[i].Draw(rng, 1, n, false).Data }
				x, dx, w, d := vector(0, rows*cols), vector(1, rows*cols), vector(2, cols), vector(3, rows)
				gw, gb, y := vector(4, cols), vector(5, cols), vector(6, rows)
				RowDots(y, x, w, 1)
				AddWeightedRows(gw, x, d)
				UnitGrad(dx, x, d, w, gw, gb, 0.2)
				AddRows(gb, x, rows, cols)
			}
		}
	})
}
