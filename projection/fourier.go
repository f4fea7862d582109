package projection

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/conclave-dp/conclave/internal/nn/kernel"
	"github.com/conclave-dp/conclave/internal/nn/kernel/gemm"
)

// Fourier computes random cosine features: weight sqrt(2/count) cos(w x + b) with a random w and b for each. Their
// products approximate a Gaussian kernel (Rahimi and Recht 2007), so that linear functions of them can distinguish
// any two distributions. Every role draws the same ones from the seed; they are public.
type Fourier struct {
	features, count int
	matrix          kernel.Matrix // [features, count]
	phase           []float32
	scale           float32
	arg             []float32
}

// NewFourier draws features of vectors: w is normal, and its standard deviation spread is the inverse length scale
// of the kernel.
func NewFourier(features, count int, spread, weight float64, seed uint64) (*Fourier, error) {
	if features < 1 || count < 1 || features > 1<<20 || count > 1<<17 || features*count > 1<<26 {
		return nil, fmt.Errorf("projection: %d random features of vectors of %d numbers; use 1 of each or more, and "+
			"fewer together", count, features)
	}
	if !(spread > 0 && spread <= 1e6) || !(weight > 0 && weight <= 1e6) {
		return nil, fmt.Errorf("projection: random features of spread %v and weight %v; use numbers above 0", spread,
			weight)
	}
	rng := rand.New(rand.NewPCG(seed, 0xf0421e4))
	f := &Fourier{
		features: features, count: count, matrix: kernel.Of(make([]float32, features*count), features, count),
		phase: make([]float32, count), scale: float32(weight * math.Sqrt(2/float64(count))),
	}
	for i := range f.matrix.Data {
		f.matrix.Data[i] = float32(spread * rng.NormFloat64())
	}
	for i := range f.phase {
		f.phase[i] = float32(2 * math.Pi * rng.Float64())
	}
	return f, nil
}

// Project writes the features of n vectors x, shape [n, features], to dst, shape [n, count].
// Their L2 norm is at most weight sqrt(2).
func (f *Fourier) Project(dst, x []float32, n int) {
	f.args(x, n)
	for i, a := range f.arg {
		dst[i] = f.scale * Cosine(a)
	}
}

// args computes the cosines' arguments.
func (f *Fourier) args(x []float32, n int) {
	if cap(f.arg) < n*f.count {
		f.arg = make([]float32, n*f.count)
	}
	f.arg = f.arg[:n*f.count]
	gemm.Multiply(kernel.Of(f.arg, n, f.count), kernel.Of(x, n, f.features), f.matrix, gemm.Epilogue{Bias: f.phase})
}

// Slope adds to dx the gradient with respect to the vectors x, given the gradient dy with respect to their
// features. It overwrites dy.
func (f *Fourier) Slope(dx, dy, x []float32, n int) {
	f.args(x, n)
	for i, a := range f.arg {
		s, _ := Sincos(a)
		dy[i] *= -f.scale * s
	}
	gemm.Multiply(kernel.Of(dx, n, f.features), kernel.Of(dy, n, f.count), f.matrix.T(), gemm.Epilogue{Add: true})
}
