package vector

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/conclave-dp/conclave/internal/nn/kernel/kerneltest"
)

func drawSums(t *rapid.T, n int) ([]int32, func() error) {
	return kerneltest.DrawGuarded(t, "sums", n, func(rng *rand.Rand) int32 { return rng.Int32N(1<<29) - 1<<28 })
}

// spoilSome makes some numbers 0, of either sign, too small for a normal float32,
// or such that a product with scale is all but a whole number.
func spoilSome(t *rapid.T, x []float32, scale float32) {
	rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "spoilt"), 4))
	for i := range x {
		switch rng.IntN(8) {
		case 0:
			x[i] = float32(math.Copysign(0, float64(x[i])))
		case 1:
			x[i] *= 1e-42
		case 2:
			x[i] = math.Nextafter32(float32(rng.IntN(9)-4)/scale, x[i])
		}
	}
}

var truncatedScales = []float32{1, 0.3, 1000, 1 << 24, 1e-30, 1e-44}

func TestAddTruncated(t *testing.T) {
	kerneltest.Check(t, func(t *rapid.T) {
		n := vectorLength.Draw(t, "n")
		x, guardX := kerneltest.DrawVector(t, "x", n)
		scale := rapid.SampledFrom(truncatedScales).Draw(t, "scale")
		spoilSome(t, x, scale)
		acc, guard := drawSums(t, n)
		before := append([]int32(nil), acc...)
		AddTruncated(acc, x, scale)
		if err := guard(); err != nil {
			t.Fatal(err)
		}
		if err := guardX(); err != nil {
			t.Fatal(err)
		}
		for i, v := range x {
			product := float32(float64(v) * float64(scale)) // exact, then rounded once
			if want := before[i] + int32(math.Trunc(float64(product))); acc[i] != want {
				t.Fatalf("sum %d of %d: %d and %v times %v is %d, want %d", i, n, before[i], v, scale, acc[i], want)
			}
		}
	})
}

func TestAddTruncatedOuter(t *testing.T) {
	kerneltest.Check(t, func(t *rapid.T) {
		rows := rapid.IntRange(0, 9).Draw(t, "rows")
		in := rapid.IntRange(0, 12).Draw(t, "in")
		out := rapid.OneOf(rapid.IntRange(0, 3), rapid.IntRange(0, 150)).Draw(t, "out")
		if rapid.Bool().Draw(t, "turned") {
			in, out = out, in
		}
		x, _ := kerneltest.DrawVector(t, "x", rows*in)
		d, _ := kerneltest.DrawVector(t, "d", rows*out)
		scales := make([]float32, rows)
		for i := range scales {
			scales[i] = rapid.SampledFrom(truncatedScales).Draw(t, "scale")
		}
		spoilSome(t, x, 1)
		spoilSome(t, d, 1)
		acc, guard := drawSums(t, in*out)
		want := append([]int32(nil), acc...)
		gradient := make([]float32, in*out)
		for r, scale := range scales {
			for i := range in {
				for j := range out {
					gradient[i*out+j] = x[r*in+i] * d[r*out+j]
				}
			}
			AddTruncated(want, gradient, scale)
		}
		AddTruncatedOuter(acc, x, d, scales)
		if err := guard(); err != nil {
			t.Fatal(err)
		}
		for i := range want {
			if acc[i] != want[i] {
				t.Fatalf("sum %d of %d x %d is %d, want %d", i, in, out, acc[i], want[i])
			}
		}
	})
}

// The sum of squares is the same at each level, and that of its comment.
func TestSumSquares64(t *testing.T) {
	kerneltest.Check(t, func(t *rapid.T) {
		n := vectorLength.Draw(t, "n")
		x, _ := kerneltest.DrawVector(t, "x", n)
		factor := rapid.SampledFrom([]float32{1, 1e37, 1e-42, 1e-20}).Draw(t, "factor")
		Scale(x, factor)
		var sums [32]float64
		for i, v := range x {
			sums[i%32] += float64(v) * float64(v)
		}
		for half := 16; half > 0; half /= 2 {
			for i := range half {
				sums[i] += sums[half+i]
			}
		}
		if got := SumSquares64(x); got != sums[0] {
			t.Fatalf("%v, want %v", got, sums[0])
		}
		if n > 0 {
			for _, v := range []float32{nan, inf, -inf} {
				x[n/2] = v
				if got := SumSquares64(x); got <= math.MaxFloat64 {
					t.Fatalf("%v with %v", got, v)
				}
			}
		}
	})
}

// What a record becomes must not depend, not in one bit, on the records beside it:
// nn bounds by how much one record moves a sum of whole numbers.
func TestRowsDoNotDependOnOtherRows(t *testing.T) {
	size := rapid.OneOf(rapid.IntRange(1, 5), rapid.IntRange(1, 140),
		rapid.SampledFrom([]int{8, 12, 32, 256, 257, 300}))
	kerneltest.Check(t, func(t *rapid.T) {
		m, k := size.Draw(t, "m"), size.Draw(t, "k")
		a, _ := kerneltest.DrawVector(t, "a", m*k)
		row := rapid.IntRange(0, m-1).Draw(t, "row")
		if m > 1 { // a neighbour that is not finite
			a[(row+1)%m*k] = nan
		}
		own := a[row*k : (row+1)*k]
		w, _ := kerneltest.DrawVector(t, "w", k)
		all, alone := make([]float32, m), make([]float32, 1)
		RowDots(all, a, w, 0.5)
		RowDots(alone, own, w, 0.5)
		kerneltest.SameBits(t, "unit", alone, all[row:])

		y := make([]float32, m*k)
		for _, f := range unaryFunctions {
			f.call(y, a)
			lone := make([]float32, k)
			f.call(lone, own)
			kerneltest.SameBits(t, f.name, lone, y[row*k:])
		}
	})
}
