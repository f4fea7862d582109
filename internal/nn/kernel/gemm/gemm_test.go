package gemm

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/conclave-dp/conclave/internal/nn/kernel"
	"github.com/conclave-dp/conclave/internal/nn/kernel/kerneltest"
	_ "github.com/conclave-dp/conclave/internal/testkit/draws" // the same seed in every run
)

// drawMatrix makes a view of shape [rows, cols], transposed or not, with gaps,
// at an odd place in memory. Gaps hold NaN: they must not be looked at.
func drawMatrix(t *rapid.T, name string, rows, cols int, transposed bool) kernel.Matrix {
	inner, outer := cols, rows
	if transposed {
		inner, outer = rows, cols
	}
	stride := inner + rapid.IntRange(0, 3).Draw(t, name+" gap")
	offset := rapid.IntRange(0, 5).Draw(t, name+" offset")
	data := make([]float32, offset+outer*stride+7)
	for i := range data {
		data[i] = float32(math.NaN())
	}
	rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, name+" seed"), 1))
	for i := range outer {
		for j := range inner {
			data[offset+i*stride+j] = float32(rng.NormFloat64())
		}
	}
	return kernel.Matrix{Data: data[offset : offset+max(0, outer*stride)], Rows: rows, Cols: cols, Stride: stride,
		Transposed: transposed}
}

func at(m kernel.Matrix, i, j int) float32 {
	row, col := m.Strides()
	return m.Data[i*row+j*col]
}

// reference is Gemm in float64, and for each element the sum of magnitudes, the
// scale of its rounding error.
func reference(c, a, b kernel.Matrix, e Epilogue) (want, scale []float64) {
	for i := range c.Rows {
		for j := range c.Cols {
			x, s := 0.0, 0.0
			if e.Add {
				x = float64(at(c, i, j))
			} else if e.Bias != nil {
				x = float64(e.Bias[j])
			}
			s = math.Abs(x)
			for p := range a.Cols {
				y := float64(at(a, i, p)) * float64(at(b, p, j))
				x, s = x+y, s+math.Abs(y)
			}
			if e.Leak > 0 && x < 0 {
				x *= float64(e.Leak)
			}
			want, scale = append(want, x), append(scale, s)
		}
	}
	return want, scale
}

// Random shapes, small and beyond the kernels' blocks, against float64.
func TestGemm(t *testing.T) {
	size := rapid.OneOf(rapid.IntRange(0, 5), rapid.IntRange(0, 40), rapid.IntRange(0, 140),
		rapid.SampledFrom([]int{12, 16, 31, 32, 33, 48, 64, 256, 257, 300}))
	kerneltest.Check(t, func(t *rapid.T) {
		m, n, k := size.Draw(t, "m"), size.Draw(t, "n"), size.Draw(t, "k")
		a := drawMatrix(t, "a", m, k, rapid.Bool().Draw(t, "transposed a"))
		b := drawMatrix(t, "b", k, n, rapid.Bool().Draw(t, "transposed b"))
		c := drawMatrix(t, "c", m, n, false)
		e := Epilogue{Add: rapid.Bool().Draw(t, "add"),
			Leak: rapid.SampledFrom([]float32{0, 0.2, 1}).Draw(t, "leak")}
		if !e.Add && rapid.Bool().Draw(t, "bias") {
			e.Bias = drawMatrix(t, "bias", 1, n, false).Data[:n]
		}
		want, scale := reference(c, a, b, e)
		before := append([]float32(nil), c.Data...)
		Multiply(c, a, b, e)
		for i := range m {
			for j := range n {
				got := float64(at(c, i, j))
				// Each of k+1 roundings is at most 2^-24 of the sum of magnitudes.
				if bound := (float64(k) + 2) * 0x1p-24 * scale[i*n+j]; !(math.Abs(got-want[i*n+j]) <= bound) {
					t.Fatalf("element (%d, %d): %v, want %v within %v", i, j, got, want[i*n+j], bound)
				}
			}
			for j := n; j < c.Stride && i*c.Stride+j < len(c.Data); j++ {
				if math.Float32bits(c.Data[i*c.Stride+j]) != math.Float32bits(before[i*c.Stride+j]) {
					t.Fatalf("wrote beyond row %d", i)
				}
			}
		}
	})
}

// NaN and infinity go where arithmetic sends them, and nowhere else.
func TestGemmSpecialNumbers(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		for _, n := range []int{1, 7, 33} {
			a, b := make([]float32, 13*9), make([]float32, 9*n)
			for i := range a {
				a[i] = 1
			}
			for i := range b {
				b[i] = 1
			}
			a[2*9+3], a[5*9+8] = nan, inf
			b[4*n+n-1] = -inf
			c := make([]float32, 13*n)
			Multiply(kernel.Of(c, 13, n), kernel.Of(a, 13, 9), kernel.Of(b, 9, n), Epilogue{Leak: 0.5})
			for i := range 13 {
				for j := range n {
					got, last := c[i*n+j], j == n-1
					var want float32 = 9
					switch {
					case i == 2 || i == 5 && last:
						want = nan
					case i == 5:
						want = inf
					case last:
						want = -inf
					}
					if got != want && !(got != got && want != want) {
						t.Errorf("n %d, element (%d, %d) is %v, want %v", n, i, j, got, want)
					}
				}
			}
		}
	})
}

// Parts put together are the whole, to the last bit.
func TestGemmPartsAreTheWhole(t *testing.T) {
	size := rapid.OneOf(rapid.IntRange(0, 5), rapid.IntRange(0, 140), rapid.SampledFrom([]int{24, 32, 257, 300}))
	kerneltest.Check(t, func(t *rapid.T) {
		m, n, k := size.Draw(t, "m"), size.Draw(t, "n"), size.Draw(t, "k")
		a := drawMatrix(t, "a", m, k, rapid.Bool().Draw(t, "transposed a"))
		b := drawMatrix(t, "b", k, n, rapid.Bool().Draw(t, "transposed b"))
		c := drawMatrix(t, "c", m, n, false)
		e := Epilogue{Add: rapid.Bool().Draw(t, "add"), Leak: rapid.SampledFrom([]float32{0, 0.2}).Draw(t, "leak")}
		if !e.Add && rapid.Bool().Draw(t, "bias") {
			e.Bias = drawMatrix(t, "bias", 1, n, false).Data[:n]
		}
		d := c
		d.Data = slices.Clone(c.Data)
		Multiply(c, a, b, e)
		parts := rapid.IntRange(1, 9).Draw(t, "parts")
		for part := range parts {
			MultiplyPart(d, a, b, e, part, parts)
		}
		for i, want := range c.Data {
			if math.Float32bits(want) != math.Float32bits(d.Data[i]) {
				t.Fatalf("number %d of C is %v in parts, %v as a whole", i, d.Data[i], want)
			}
		}
	})
}

func TestPartsAreWorthTheirWhile(t *testing.T) {
	for _, c := range []struct{ m, n, k, least, most int }{
		{64, 30, 30, 1, 1}, {64, 128, 784, 2, 6}, {1024, 1024, 1024, 16, 1024}, {1, 1, 1 << 30, 1, 1}, {0, 0, 0, 1, 1},
	} {
		if got := Parts(c.m, c.n, c.k); got < c.least || got > c.most {
			t.Errorf("product %d x %d x %d in %d parts, want %d to %d", c.m, c.n, c.k, got, c.least, c.most)
		}
	}
}

func TestGemmRefusesShapesThatDoNotFit(t *testing.T) {
	x := make([]float32, 12)
	for name, call := range map[string]func(){
		"inner":     func() { Multiply(kernel.Of(x, 2, 2), kernel.Of(x, 2, 3), kernel.Of(x, 2, 2), Epilogue{}) },
		"rows":      func() { Multiply(kernel.Of(x, 3, 2), kernel.Of(x, 2, 3), kernel.Of(x, 3, 2), Epilogue{}) },
		"short":     func() { Multiply(kernel.Of(x, 4, 4), kernel.Of(x, 4, 1), kernel.Of(x, 1, 4), Epilogue{}) },
		"short row": func() { Multiply(kernel.Of(x, 1, 4), kernel.Of(x[:2], 1, 3), kernel.Of(x, 3, 4), Epilogue{}) },
		"bias": func() {
			Multiply(kernel.Of(x, 2, 2), kernel.Of(x, 2, 3), kernel.Of(x, 3, 2),
				Epilogue{Bias: x[:1]})
		},
		"bias added": func() {
			Multiply(kernel.Of(x, 2, 2), kernel.Of(x, 2, 3), kernel.Of(x, 3, 2), Epilogue{Bias: x[:2], Add: true})
		},
		"transposed": func() { Multiply(kernel.Of(x, 2, 2).T(), kernel.Of(x, 2, 3), kernel.Of(x, 3, 2), Epilogue{}) },
		"stride": func() {
			Multiply(kernel.Matrix{Data: x, Rows: 2, Cols: 2, Stride: 1}, kernel.Of(x, 2, 3),
				kernel.Of(x, 3, 2), Epilogue{})
		},
		"negative": func() { Multiply(kernel.Of(x, -1, 2), kernel.Of(x, -1, 3), kernel.Of(x, 3, 2), Epilogue{}) },
		"part": func() {
			MultiplyPart(kernel.Of(x, 2, 2), kernel.Of(x, 2, 3), kernel.Of(x, 3, 2),
				Epilogue{}, 2, 2)
		},
		"part -1": func() {
			MultiplyPart(kernel.Of(x, 2, 2), kernel.Of(x, 2, 3), kernel.Of(x, 3, 2),
				Epilogue{}, -1, 2)
		},
		"leak": func() { Multiply(kernel.Of(x, 2, 2), kernel.Of(x, 2, 3), kernel.Of(x, 3, 2), Epilogue{Leak: 2}) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: accepted", name)
				}
			}()
			call()
		}()
	}
}

// What a record becomes must not depend, not in one bit, on the records beside it:
// nn bounds by how much one record moves a sum of whole numbers.
func TestRowsDoNotDependOnOtherRows(t *testing.T) {
	size := rapid.OneOf(rapid.IntRange(1, 5), rapid.IntRange(1, 140),
		rapid.SampledFrom([]int{8, 12, 32, 256, 257, 300}))
	kerneltest.Check(t, func(t *rapid.T) {
		m, n, k := size.Draw(t, "m"), size.Draw(t, "n"), size.Draw(t, "k")
		a, _ := kerneltest.DrawVector(t, "a", m*k)
		b := drawMatrix(t, "b", k, n, rapid.Bool().Draw(t, "transposed b"))
		row := rapid.IntRange(0, m-1).Draw(t, "row")
		if m > 1 { // a neighbour that is not finite
			a[(row+1)%m*k] = float32(math.NaN())
		}
		own := a[row*k : (row+1)*k]
		e := Epilogue{Leak: rapid.SampledFrom([]float32{0, 0.2}).Draw(t, "leak")}
		if rapid.Bool().Draw(t, "bias") {
			e.Bias, _ = kerneltest.DrawVector(t, "bias", n)
		}
		all, alone := make([]float32, m*n), make([]float32, n)
		Multiply(kernel.Of(all, m, n), kernel.Of(a, m, k), b, e)
		Multiply(kernel.Of(alone, 1, n), kernel.Of(own, 1, k), b, e)
		kerneltest.SameBits(t, "product", alone, all[row*n:])
	})
}
