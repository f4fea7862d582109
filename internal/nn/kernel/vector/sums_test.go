package vector

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/conclave-dp/conclave/internal/nn/kernel"
	"github.com/conclave-dp/conclave/internal/nn/kernel/kerneltest"
)

func TestAddRows(t *testing.T) {
	kerneltest.Check(t, func(t *rapid.T) {
		rows, cols := rapid.IntRange(0, 13).Draw(t, "rows"), rapid.IntRange(0, 150).Draw(t, "cols")
		x, _ := kerneltest.DrawVector(t, "x", rows*cols)
		dst, guard := kerneltest.DrawVector(t, "dst", cols)
		before := append([]float32(nil), dst...)
		AddRows(dst, x, rows, cols)
		if err := guard(); err != nil {
			t.Fatal(err)
		}
		for j, got := range dst {
			// The order as documented.
			var s [4]float32
			for i := range rows {
				if i < rows&^3 {
					s[i%4] += x[i*cols+j]
				} else {
					s[0] += x[i*cols+j]
				}
			}
			if want := before[j] + ((s[0] + s[1]) + (s[2] + s[3])); got != want {
				t.Fatalf("column %d of [%d, %d] is %v, want %v", j, rows, cols, got, want)
			}
		}
	})
}

func TestSoftmax(t *testing.T) {
	cols := rapid.OneOf(rapid.IntRange(1, 20), rapid.IntRange(1, 70), rapid.IntRange(1, 300))
	kerneltest.Check(t, func(t *rapid.T) {
		rows, cols, gap := rapid.IntRange(0, 5).Draw(t, "rows"), cols.Draw(t, "cols"), rapid.IntRange(0,
			9).Draw(t, "gap")
		shift, spread := rapid.Float32Range(-1e4, 1e4).Draw(t,
			"shift"), rapid.SampledFrom([]float32{0.1, 1, 30}).Draw(t, "spread")
		x, guard := kerneltest.DrawVector(t, "x", rows*(cols+gap))
		for i := range x {
			x[i] = x[i]*spread + shift
		}
		before := append([]float32(nil), x...)
		SoftmaxOf(kernel.Matrix{Data: x, Rows: rows, Cols: cols, Stride: cols + gap})
		if err := guard(); err != nil {
			t.Fatal(err)
		}
		for i := range rows {
			row, old := x[i*(cols+gap):][:cols+gap], before[i*(cols+gap):][:cols+gap]
			top, sum := old[0], 0.0
			for _, v := range old[:cols] {
				top = max(top, v)
			}
			for _, v := range old[:cols] {
				sum += math.Exp(float64(v - top))
			}
			for j, v := range row[:cols] {
				want := math.Exp(float64(old[j]-top)) / sum
				if old[j]-top < expCut {
					want = 0
				}
				// exp, as many additions as there are in a lane, and the division.
				if bound := (10 + float64(cols)) * 0x1p-24 * want; !(math.Abs(float64(v)-want) <= bound) {
					t.Fatalf("element (%d, %d) of [%d, %d] is %v, want %v within %v",
						i, j, rows, cols, v, want, bound)
				}
			}
			for j, v := range row[cols:] {
				if v != old[cols+j] {
					t.Fatalf("wrote beyond row %d", i)
				}
			}
		}
	})
}

func TestSoftmaxOfSpecialNumbers(t *testing.T) {
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		for _, cols := range []int{2, 3, 8, 16, 17, 40} {
			for at := range cols {
				x := make([]float32, 5*cols)
				for i, v := range []float32{nan, inf, -inf, 1e30} {
					x[i*cols+at] = v
				}
				for j := range cols {
					x[4*cols+j] = -inf
				}
				Softmax(x, 5, cols)
				for j := range cols {
					others, alone := 1/float32(cols-1), float32(0)
					if j == at {
						others, alone = 0, 1
					}
					for i, want := range []float32{nan, nan, others, alone, nan} {
						if got := x[i*cols+j]; !(math.Abs(float64(got-want)) <= 1e-6) && !(got != got && want != want) {
							t.Fatalf("row %d, column %d of %d is %v, want %v", i, j, cols, got, want)
						}
					}
				}
			}
		}
	})
}

// A gradient whose square overflows must not poison the weights, nor one of 0.
func TestAdamOfExtremeGradients(t *testing.T) {
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		for _, n := range []int{1, 8, 16, 21} {
			for _, c := range []struct{ grad, want float32 }{{0, 1}, {1e30, 1}, {1e-30, 1}, {nan, nan}, {inf, nan}} {
				w, m, v, g := make([]float32, n), make([]float32, n), make([]float32, n), make([]float32, n)
				for i := range w {
					w[i], g[i] = 1, c.grad
				}
				Adam(w, m, v, g, AdamStep{Rate: 1e-3, Beta1: 0.5, Beta2: 0.9, Epsilon: 1e-8}.At(1))
				for _, got := range w {
					if c.grad == inf && math.IsInf(float64(got), 0) {
						continue
					}
					if got != c.want && !(got != got && c.want != c.want) {
						t.Fatalf("weight %v after gradient %v, want %v", got, c.grad, c.want)
					}
				}
			}
		}
	})
}

// The least epsilon that is allowed does no harm where all else is 0.
func TestLeastEpsilon(t *testing.T) {
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		for _, n := range []int{1, 8, 16, 21} {
			w, m, v, g := make([]float32, n), make([]float32, n), make([]float32, n), make([]float32, n)
			Adam(w, m, v, g, AdamStep{Rate: 1e-3, Beta1: 0.5, Beta2: 0.9, Epsilon: 0x1p-126}.At(1))
			same(t, "weights", w, make([]float32, n))
		}
	})
}

// Fields left at 0 correct nothing.
func TestAdamWithoutCorrections(t *testing.T) {
	w, m, v := []float32{1}, []float32{0}, []float32{0}
	Adam(w, m, v, []float32{2}, AdamStep{Rate: 0.5, Beta1: 0.5, Beta2: 0.75, Epsilon: 1})
	if w[0] != 0.75 || m[0] != 1 || v[0] != 1 {
		t.Errorf("w %v, m %v, v %v, want 0.75, 1, 1", w[0], m[0], v[0])
	}
}
