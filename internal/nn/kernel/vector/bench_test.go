package vector

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/conclave-dp/conclave/internal/nn/kernel"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// atLevels runs a benchmark on every level, with bytes read and written per
// element, and reports the time per element.
func atLevels(b *testing.B, name string, n, bytes int, f func()) {
	for l := kernel.Portable; l <= kernel.Supported(); l++ {
		b.Run(fmt.Sprintf("%s/%d/%v", name, n, l), func(b *testing.B) {
			restore, err := kernel.Use(l)
			testkit.Must(b, err)
			defer restore()
			b.SetBytes(int64(bytes * n))
			for b.Loop() {
				f()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/element")
		})
	}
}

func benchmarkVectors(n, count int) [][]float32 {
	rng := rand.New(rand.NewPCG(1, 2))
	v := make([][]float32, count)
	for i := range v {
		v[i] = make([]float32, n)
		for j := range v[i] {
			v[i][j] = float32(rng.NormFloat64())
		}
	}
	return v
}

// BenchmarkVectors takes vectors that stay in the first and in the second cache,
// and whose places are not alike in the last 12 bits.
func BenchmarkVectors(b *testing.B) {
	for _, n := range []int{1000, 50000} {
		v := benchmarkVectors(n, 4)
		for i := range v[2] {
			v[2][i] *= v[2][i] // second moments are not negative
		}
		dst := make([]float32, n)
		for _, f := range unaryFunctions {
			atLevels(b, f.name, n, 8, func() { f.call(dst, v[0]) })
		}
		step := AdamStep{Rate: 1e-3, Beta1: 0.5, Beta2: 0.9, Epsilon: 1e-8, Decay: 1e-4}.At(3)
		atLevels(b, "LeakyReLU", n, 8, func() { LeakyReLU(dst, v[0], 0.2) })
		atLevels(b, "LeakyReLUGrad", n, 12, func() { LeakyReLUGrad(dst, v[0], v[1], 0.2) })
		atLevels(b, "AddScaled", n, 12, func() { AddScaled(dst, v[0], 1e-9) })
		atLevels(b, "Scale", n, 8, func() { Scale(dst, 1) })
		atLevels(b, "Lerp", n, 12, func() { Lerp(dst, v[0], 0.9) })
		atLevels(b, "Adam", n, 28, func() { Adam(v[0], v[1], v[2], v[3], step) })
		atLevels(b, "SGD", n, 12, func() { SGD(v[0], nil, v[3], SGDStep{Rate: 1e-6}) })
		atLevels(b, "Momentum", n, 20, func() { SGD(v[0], v[1], v[3], SGDStep{Rate: 1e-6, Momentum: 0.9}) })
	}
}

func BenchmarkRows(b *testing.B) {
	for _, cols := range []int{3, 8, 16, 30, 64, 500} {
		rows := 16384 / cols
		n := rows * cols
		v := benchmarkVectors(n, 1)[0]
		dst := make([]float32, cols)
		atLevels(b, fmt.Sprintf("Softmax%d", cols), n, 8, func() { Softmax(v, rows, cols) })
		atLevels(b, fmt.Sprintf("AddRows%d", cols), n, 4, func() { AddRows(dst, v, rows, cols) })
	}
}
