package vector

import (
	"fmt"
	"math"
	"testing"

	"github.com/conclave-dp/conclave/internal/nn/kernel"
	"github.com/conclave-dp/conclave/internal/nn/kernel/kerneltest"
	"github.com/conclave-dp/conclave/internal/testkit"
)

var (
	inf = float32(math.Inf(1))
	nan = float32(math.NaN())
)

// unaryFunctions are the functions of one number, with the error that their
// comments promise. Below cut they are 0.
var unaryFunctions = []struct {
	name     string
	call     func(dst, x []float32)
	exact    func(x float64) float64
	ulps     float64
	cut      float64
	specials [][2]float32 // arguments and results
}{
	{"Sigmoid", Sigmoid, func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }, 3,
		-86.98, [][2]float32{{-inf, 0}, {inf, 1}, {-1e30, 0}, {1e30, 1}, {0, 0.5}}},
	{"Tanh", Tanh, math.Tanh, 3, math.Inf(-1), [][2]float32{{-inf, -1}, {inf, 1}, {-1e30, -1}, {1e30, 1}, {0, 0}}},
	{"Softplus", Softplus, func(x float64) float64 { return max(x, 0) + math.Log1p(math.Exp(-math.Abs(x))) },
		3, -86.98, [][2]float32{{-inf, 0}, {inf, inf}, {-1e30, 0}, {1e30, 1e30}}},
}

// ulpError is |got - want| in units of the last place of want.
func ulpError(got float32, want float64) float64 {
	rounded := float32(want)
	if got == rounded || got != got && want != want {
		return 0
	}
	_, exponent := math.Frexp(want)
	return math.Abs(float64(got)-want) / math.Ldexp(1, max(exponent-24, -149))
}

// every calls f with slices of float32 numbers of all signs and exponents: every step-th number in the order of
// their bits.
func every(step uint32, f func(x []float32)) {
	x := make([]float32, 4093)
	n := 0
	for bits := uint64(0); bits < 1<<32; bits += uint64(step) {
		x[n] = math.Float32frombits(uint32(bits))
		if n++; n == len(x) {
			f(x)
			n = 0
		}
	}
	f(x[:n])
}

// All signs and exponents stay within the error that is promised.
func TestFunctionsAreAccurate(t *testing.T) {
	var step uint32 = 1009
	if testing.Short() {
		step = 10007
	}
	for _, f := range unaryFunctions {
		t.Run(f.name, func(t *testing.T) {
			kerneltest.AtEachLevel(t, func(t *testing.T) {
				worst, at := 0.0, float32(0)
				var dst [4093]float32
				every(step, func(x []float32) {
					f.call(dst[:len(x)], x)
					for i, v := range x {
						want := f.exact(float64(v))
						if float64(v) < f.cut {
							want = 0
						}
						if e := ulpError(dst[i], want); !(e <= worst) {
							worst, at = e, v
						}
					}
				})
				t.Logf("at most %.2f ulp, at %v", worst, at)
				if !(worst <= f.ulps) {
					t.Errorf("%v ulp at %v, want at most %v", worst, at, f.ulps)
				}
			})
		})
	}
}

// Zero, infinity and NaN, in each lane and beside ordinary numbers.
func TestFunctionsOfSpecialNumbers(t *testing.T) {
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		for _, f := range unaryFunctions {
			for _, s := range append(f.specials, [2]float32{nan, nan}, [2]float32{-nan, nan}) {
				for _, n := range []int{1, 8, 16, 23} {
					for at := range n {
						x := make([]float32, n)
						for i := range x {
							x[i] = 1
						}
						x[at] = s[0]
						f.call(x, x)
						for i, got := range x {
							want := s[1]
							if i != at {
								want = float32(f.exact(1))
							}
							if e := ulpError(got, float64(want)); !(e <= f.ulps) {
								t.Fatalf("%s: %v of %v at %d of %d, want %v", f.name, got, s[0], i, n, want)
							}
						}
					}
				}
			}
		}
	})
}

func TestTanhIsOdd(t *testing.T) {
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		var a, b [4093]float32
		every(100003, func(x []float32) {
			Tanh(a[:len(x)], x)
			for i := range x {
				x[i] = -x[i]
			}
			Tanh(b[:len(x)], x)
			for i, v := range x {
				if v == v && math.Float32bits(a[i]) != math.Float32bits(-b[i]) {
					t.Fatalf("tanh %v is %v, of the negative %v", v, b[i], a[i])
				}
			}
		})
	})
}

// Levels with vectors give the same bits, and plain Go what is promised of each.
func TestLevelsAgree(t *testing.T) {
	if kernel.Supported() < kernel.AVX512 {
		t.Skip("no two levels with vectors")
	}
	results := func(l kernel.Level, f func(dst, x []float32), x []float32) []float32 {
		restore, err := kernel.Use(l)
		testkit.Must(t, err)
		defer restore()
		dst := make([]float32, len(x))
		f(dst, x)
		return dst
	}
	for _, f := range unaryFunctions {
		every(30011, func(x []float32) {
			plain, narrow, wide := results(kernel.Portable, f.call, x), results(kernel.AVX2, f.call,
				x), results(kernel.AVX512, f.call, x)
			for i, v := range x {
				if math.Float32bits(narrow[i]) != math.Float32bits(wide[i]) && v == v && wide[i] == wide[i] {
					t.Fatalf("%s %v is %v and %v", f.name, v, narrow[i], wide[i])
				}
				if e := ulpError(plain[i], float64(wide[i])); !(e <= 2*f.ulps) {
					t.Fatalf("%s %v is %v in Go and %v in assembly", f.name, v, plain[i], wide[i])
				}
			}
		})
	}
}

func TestRectifiersOfSpecialNumbers(t *testing.T) {
	zero := float32(math.Copysign(0, -1))
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		for _, n := range []int{1, 9, 16, 20} {
			at := func(v float32) []float32 {
				x := make([]float32, n)
				for i := range x {
					x[i] = v
				}
				return x
			}
			for _, c := range []struct{ slope, x, want float32 }{
				{0, -inf, 0}, {0, -1, 0}, {0, inf, inf}, {0, nan, nan}, {0, zero, zero}, {0.5, -inf, -inf},
				{0.5, nan, nan}, {0.5, -2, -1},
			} {
				x := at(c.x)
				LeakyReLU(x, x, c.slope)
				same(t, fmt.Sprintf("LeakyReLU of %v, slope %v", c.x, c.slope), x, at(c.want))
			}
			for _, c := range []struct{ slope, y, dy, want float32 }{
				{0, 0, 3, 0}, {0, zero, 3, 0}, {0, -1, inf, 0}, {0, 1, -inf, -inf}, {0, nan, 3, 3}, {0.5, zero, 3, 1.5},
				{0.5, -1, 3, 1.5}, {0.5, 1, 3, 3}, {0.5, -1, nan, nan},
			} {
				dx := at(7)
				LeakyReLUGrad(dx, at(c.dy), at(c.y), c.slope)
				same(t, fmt.Sprintf("LeakyReLUGrad of %v at %v, slope %v", c.dy, c.y, c.slope), dx, at(c.want))
			}
		}
	})
}

// same fails unless the bits of x are those of want, NaN being like NaN.
func same(t *testing.T, name string, x, want []float32) {
	t.Helper()
	for i, v := range x {
		if math.Float32bits(v) != math.Float32bits(want[i]) && !(v != v && want[i] != want[i]) {
			t.Errorf("%s: element %d is %v, want %v", name, i, v, want[i])
		}
	}
}
