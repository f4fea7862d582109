package vector

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/conclave-dp/conclave/internal/nn/kernel"
	"github.com/conclave-dp/conclave/internal/nn/kernel/kerneltest"
)

// waveFunctions have an absolute error, and are not among unaryFunctions for that.
var waveFunctions = []struct {
	name  string
	call  func(dst, x []float32)
	exact func(x float64) float64
}{{"Cosine", Cosine, math.Cos}, {"Sine", Sine, math.Sin}}

// waveError is what the comment of Cosine allows.
func waveError(x float32) float64 {
	return 2e-7 * (1 + math.Abs(float64(x)))
}

// Small angles of all exponents, and angles far off, at each level and with the same bits at those
// with vectors.
func TestWavesAreAccurate(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	var angles []float32
	every(50021, func(x []float32) {
		for _, v := range x {
			if math.Abs(float64(v)) < 1e4 {
				angles = append(angles, v)
			}
		}
	})
	for range 200_003 {
		angles = append(angles, float32(20*rng.NormFloat64()))
	}
	for _, f := range waveFunctions {
		var vectors []float32
		kerneltest.AtEachLevel(t, func(t *testing.T) {
			dst := make([]float32, len(angles))
			f.call(dst, angles)
			for i, v := range angles {
				if e := math.Abs(float64(dst[i]) - f.exact(float64(v))); !(e <= waveError(v)) {
					t.Fatalf("%s %v is %v, off by %v", f.name, v, dst[i], e)
				}
			}
			if kernel.Active() == kernel.Portable {
				return
			}
			if vectors != nil {
				same(t, f.name, dst, vectors)
			}
			vectors = dst
		})
	}
}

// What is no angle has no sine; angles beyond all precision stay within [-1, 1].
func TestWavesOfSpecialNumbers(t *testing.T) {
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		for _, f := range waveFunctions {
			for _, n := range []int{1, 8, 16, 23} {
				for at := range n {
					x := make([]float32, n)
					x[at] = nan
					f.call(x, x)
					for i, v := range x {
						if (i == at) != (v != v) || i != at && math.Abs(float64(v)-f.exact(0)) > 1e-6 {
							t.Fatalf("%s: number %d of %d is %v, NaN is at %d", f.name, i, n, v, at)
						}
					}
				}
			}
			x := []float32{inf, -inf, math.MaxFloat32, -1e30, 1e9}
			f.call(x, x)
			for i, v := range x {
				if i < 2 != (v != v) || math.Abs(float64(v)) > 1.000001 {
					t.Errorf("%s of special number %d is %v", f.name, i, v)
				}
			}
		}
	})
}

func TestWavesKeepTheirPlace(t *testing.T) {
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		for n := range 40 {
			for _, f := range waveFunctions {
				all := make([]float32, n+20)
				for i := range all {
					all[i] = 5
				}
				f.call(all[10:10+n], all[10:10+n])
				for i, v := range all {
					want := 5.
					if i >= 10 && i < 10+n {
						want = f.exact(5)
					}
					if math.Abs(float64(v)-want) > 2e-6 {
						t.Fatalf("%s of %d numbers: %v at %d, want %v", f.name, n, v, i-10, want)
					}
				}
			}
		}
	})
}

func BenchmarkWaves(b *testing.B) {
	v := benchmarkVectors(1000, 1)[0]
	dst := make([]float32, len(v))
	atLevels(b, "Cosine", len(v), 8, func() { Cosine(dst, v) })
}
