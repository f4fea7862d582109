package gemm

import (
	"fmt"
	"testing"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"

	"github.com/conclave-dp/conclave/internal/nn/kernel"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// shapes are m, n, k: those of large products, of a teacher's small layer and of
// a layer on images.
var shapes = [][3]int{{128, 128, 128}, {256, 256, 256}, {1024, 1024, 1024}, {64, 29, 29}, {64, 128, 784},
	{64, 784, 128}}

func benchmarkProduct(b *testing.B, shape [3]int, product func(c, a, b []float32)) {
	m, n, k := shape[0], shape[1], shape[2]
	x, y, c := make([]float32, m*k), make([]float32, k*n), make([]float32, m*n)
	for i := range x {
		x[i] = float32(i%7) - 3
	}
	for i := range y {
		y[i] = float32(i%5) - 2
	}
	product(c, x, y)
	for b.Loop() {
		product(c, x, y)
	}
	flops := 2 * float64(m) * float64(n) * float64(k)
	b.ReportMetric(flops*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
}

// BenchmarkGemm gives the rate of each level on one core, and gonum's.
func BenchmarkGemm(b *testing.B) {
	for _, shape := range shapes {
		m, n, k := shape[0], shape[1], shape[2]
		name := fmt.Sprintf("%dx%dx%d/", m, n, k)
		for l := kernel.AVX2; l <= kernel.Supported(); l++ {
			for _, transposed := range []string{"", "A'", "B'"} {
				b.Run(name+l.String()+transposed, func(b *testing.B) {
					restore, err := kernel.Use(l)
					testkit.Must(b, err)
					defer restore()
					benchmarkProduct(b, shape, func(c, x, y []float32) {
						a, bb := kernel.Of(x, m, k), kernel.Of(y, k, n)
						switch transposed {
						case "A'":
							a = kernel.Of(x, k, m).T()
						case "B'":
							bb = kernel.Of(y, n, k).T()
						}
						Multiply(kernel.Of(c, m, n), a, bb, Epilogue{})
					})
				})
			}
		}
		b.Run(name+"gonum", func(b *testing.B) {
			benchmarkProduct(b, shape, func(c, x, y []float32) {
				blas32.Gemm(blas.NoTrans, blas.NoTrans, 1, blas32.General{Rows: m, Cols: k, Stride: k, Data: x},
					blas32.General{Rows: k, Cols: n, Stride: n, Data: y},
					0, blas32.General{Rows: m, Cols: n, Stride: n, Data: c})
			})
		})
	}
}
