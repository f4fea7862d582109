package vector

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/conclave-dp/conclave/internal/nn/kernel"
	"github.com/conclave-dp/conclave/internal/nn/kernel/kerneltest"
	_ "github.com/conclave-dp/conclave/internal/testkit/draws" // the same seed in every run
)

// vectorCase is a function of vectors: its vectors, of which the first writes are
// changed, and what it makes of one element, with the error that is allowed.
type vectorCase struct {
	name   string
	count  int // vectors
	writes int
	call   func(v [][]float32)
	// exact leaves the results in x, and in e the scale of rounding errors.
	exact func(x, e []float64)
}

const (
	testRate, testDecay, testSlope = 0.01, 0.1, 0.2
	// roundings is how many roundings an element may suffer.
	roundings = 8
)

var testAdam = AdamStep{Rate: testRate, Beta1: 0.5, Beta2: 0.9, Epsilon: 1e-8, Decay: testDecay}.At(3)

// descent is a step of weight x[0] by d, known within error.
func descent(x, e []float64, d, error float64) {
	e[0] = math.Abs(x[0]) + testRate*(math.Abs(d)+error)
	x[0] = (1-testRate*testDecay)*x[0] - testRate*d
}

var vectorCases = []vectorCase{
	{"LeakyReLU", 2, 1, func(v [][]float32) { LeakyReLU(v[0], v[1], testSlope) }, func(x, e []float64) {
		x[0] = max(x[1], testSlope*x[1])
		e[0] = math.Abs(x[0])
	}},
	{"ReLU", 2, 1, func(v [][]float32) { LeakyReLU(v[0], v[1], 0) },
		func(x, e []float64) { x[0], e[0] = max(x[1], 0), 0 }},
	{"LeakyReLUGrad", 3, 1, func(v [][]float32) { LeakyReLUGrad(v[0], v[1], v[2], testSlope) }, func(x, e []float64) {
		x[0] = x[1]
		if x[2] <= 0 {
			x[0] *= testSlope
		}
		e[0] = math.Abs(x[0])
	}},
	{"AddScaled", 2, 1, func(v [][]float32) { AddScaled(v[0], v[1], 0.3) }, func(x, e []float64) {
		e[0] = math.Abs(x[0]) + math.Abs(x[1])
		x[0] += 0.3 * x[1]
	}},
	{"Scale", 1, 1, func(v [][]float32) { Scale(v[0], 0.3) },
		func(x, e []float64) { x[0], e[0] = 0.3*x[0], math.Abs(x[0]) }},
	{"Lerp", 2, 1, func(v [][]float32) { Lerp(v[0], v[1], 0.9) }, func(x, e []float64) {
		e[0] = math.Abs(x[0]) + math.Abs(x[1])
		x[0] = 0.9*x[0] + 0.1*x[1]
	}},
	{"Adam", 4, 3, func(v [][]float32) {
		Scale(v[2], 0) // second moments are not negative
		Adam(v[0], v[1], v[2], v[3], testAdam)
	}, func(x, e []float64) {
		m, v := 0.5*x[1]+0.5*x[3], 0.1*x[3]*x[3]
		e[1], e[2] = math.Abs(x[1])+math.Abs(x[3]), v
		root := math.Sqrt(v/testAdam.Correction2) + 1e-8
		x[1], x[2] = m, v
		descent(x, e, m/testAdam.Correction1/root, e[1]/testAdam.Correction1/root)
	}},
	{"SGD", 2, 1, func(v [][]float32) { SGD(v[0], nil, v[1], SGDStep{Rate: testRate, Decay: testDecay}) },
		func(x, e []float64) {
			descent(x, e, x[1], 0)
		}},
	{"Momentum", 3, 2, func(v [][]float32) {
		SGD(v[0], v[1], v[2],
			SGDStep{Rate: testRate, Momentum: 0.9, Decay: testDecay})
	}, func(x, e []float64) {
		e[1] = math.Abs(x[1]) + math.Abs(x[2])
		x[1] = 0.9*x[1] + x[2]
		descent(x, e, x[1], e[1])
	}},
}

// allVectorCases adds the functions of one number.
func allVectorCases() []vectorCase {
	cases := vectorCases
	for _, f := range unaryFunctions {
		cases = append(cases, vectorCase{f.name, 2, 1, func(v [][]float32) { f.call(v[0], v[1]) },
			func(x, e []float64) {
				x[0] = f.exact(x[1])
				e[0] = math.Abs(x[0])
			}})
	}
	return cases
}

var vectorLength = rapid.OneOf(rapid.IntRange(0, 5), rapid.IntRange(0, 70), rapid.IntRange(0, 300))

// Random lengths and places, against float64; guards stay, and so do inputs.
func TestVectors(t *testing.T) {
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		for _, c := range allVectorCases() {
			t.Run(c.name, func(t *testing.T) {
				rapid.Check(t, func(t *rapid.T) {
					n := vectorLength.Draw(t, "n")
					vectors, before, again := make([][]float32, c.count), make([][]float32,
						c.count), make([][]float32, c.count)
					guards := make([]func() error, c.count)
					for i := range vectors {
						vectors[i], guards[i] = kerneltest.DrawVector(t, fmt.Sprint("vector ", i), n)
						before[i], again[i] = append([]float32(nil), vectors[i]...), append(make([]float32, 0, n+9),
							vectors[i]...)
					}
					c.call(vectors)
					c.call(again)
					for _, guard := range guards {
						if err := guard(); err != nil {
							t.Fatal(err)
						}
					}
					x, e := make([]float64, c.count), make([]float64, c.count)
					for i := range n {
						for j := range x {
							x[j], e[j] = float64(before[j][i]), 0
						}
						c.exact(x, e)
						for j, want := range x {
							got := vectors[j][i]
							if math.Float32bits(got) != math.Float32bits(again[j][i]) {
								t.Fatalf("element %d of vector %d is %v and then %v", i, j, got, again[j][i])
							}
							if bound := roundings * 0x1p-24 * e[j]; !(math.Abs(float64(got)-want) <= bound) &&
								(got == got || want == want) {
								t.Fatalf("element %d of %d of vector %d is %v, want %v within %v",
									i, n, j, got, want, bound)
							}
						}
					}
				})
			})
		}
	})
}

// Slices at the ends of readable memory: a read beyond would be fatal.
func TestVectorsAtTheEndsOfMemory(t *testing.T) {
	page, release, err := kerneltest.Pages(1)
	if err != nil {
		t.Skip(err)
	}
	defer release()
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		for _, c := range allVectorCases() {
			for n := range 40 {
				v := make([][]float32, c.count)
				for i := range v {
					v[i] = page[i*64+64-n : i*64+64]
				}
				v[c.count-1] = page[len(page)-n:]
				c.call(v)
			}
		}
		for n := range 140 {
			x, acc := page[len(page)-n:], make([]int32, 3*n)
			AddTruncated(acc[:n], x, 1)
			SumSquares64(x)
			AddTruncatedOuter(acc, page[:3], x, []float32{1})
			AddTruncatedOuter(acc, x, page[:3], []float32{1})
			Softmax(x, 1, n)
			Softmax(page[:n], 1, n)
			AddRows(make([]float32, n), x, 1, n)
			if n%5 == 0 {
				Softmax(x, 5, n/5)
				AddRows(make([]float32, n/5), x, 5, n/5)
				AddRows(x[n-n/5:], make([]float32, n), 5, n/5)
			}
		}
	})
}

func TestVectorsRefuseLengthsThatDiffer(t *testing.T) {
	for _, c := range allVectorCases() {
		for odd := range c.count {
			v := make([][]float32, c.count)
			for i := range v {
				v[i] = make([]float32, 4)
			}
			v[odd] = make([]float32, 5)
			if c.count > 1 && !panics(func() { c.call(v) }) {
				t.Errorf("%s: accepted vector %d of another length", c.name, odd)
			}
		}
	}
	x, acc := make([]float32, 12), make([]int32, 12)
	for name, call := range map[string]func(){
		"softmax":            func() { Softmax(x, 3, 5) },
		"transposed":         func() { SoftmaxOf(kernel.Of(x, 3, 4).T()) },
		"rows":               func() { AddRows(x[:4], x, 4, 4) },
		"columns":            func() { AddRows(x[:4], x, 3, 3) },
		"no momentum":        func() { SGD(x, nil, x, SGDStep{Momentum: 0.9}) },
		"outputs":            func() { RowDots(x[:3], x, x[:3], 0) },
		"weights":            func() { AddWeightedRows(x[:4], x, x[:4]) },
		"records":            func() { UnitGrad(x, x, x[:4], x[:4], x[:4], x[:4], 1) },
		"input gradients":    func() { UnitGrad(x[:11], x, x[:3], x[:4], x[:4], x[:4], 1) },
		"weights' gradients": func() { UnitGrad(x, x, x[:3], x[:4], x[:3], x[:4], 1) },
		"biases' gradients":  func() { UnitGrad(x, x, x[:3], x[:4], x[:4], x[:3], 1) },
		"truncated":          func() { AddTruncated(acc, x[:11], 1) },
		"outer sums":         func() { AddTruncatedOuter(acc[:11], x[:6], x[:4], x[:2]) },
		"outer rows":         func() { AddTruncatedOuter(acc[:6], x[:7], x[:4], x[:2]) },
		"outer columns":      func() { AddTruncatedOuter(acc[:6], x[:6], x[:5], x[:2]) },
	} {
		if !panics(call) {
			t.Errorf("%s: accepted", name)
		}
	}
}

func panics(f func()) (yes bool) {
	defer func() { yes = recover() != nil }()
	f()
	return false
}
