package pategan

import (
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"
)

// features are random cosine features of few columns each: cos(w.x + b) with w
// of one to three columns, in units of the columns' present spread. Their means
// describe a distribution's low-order marginals at several length scales
// (random Fourier features, Rahimi and Recht 2007).
type features struct {
	width, count int
	w            []float32 // [count, width]
	b            []float32
	arg          []float32
	sin          []float32
}

// lengthScales are the features' scales in units of a column's spread.
var lengthScales = [...]float64{0.3, 1, 3}

func newFeatures(rng *rand.Rand, count int, x []float32, width int) *features {
	f := &features{width: width, count: count, w: make([]float32, count*width), b: make([]float32, count)}
	spread := spreads(x, width)
	for k := range count {
		scale := lengthScales[rng.IntN(len(lengthScales))]
		for range 1 + rng.IntN(3) {
			j := rng.IntN(width)
			f.w[k*width+j] = float32(rng.NormFloat64() / (scale * spread[j]))
		}
		f.b[k] = float32(2 * math.Pi * rng.Float64())
	}
	return f
}

// spreads returns the standard deviation of each column, with a floor.
func spreads(x []float32, width int) []float64 {
	n := len(x) / width
	s := make([]float64, width)
	for j := range s {
		var sum, square float64
		for i := range n {
			v := float64(x[i*width+j])
			sum += v
			square += v * v
		}
		mean := sum / float64(n)
		s[j] = math.Max(0.02, math.Sqrt(math.Max(0, square/float64(n)-mean*mean)))
	}
	return s
}

// mean adds the weighted features of the records of each class to out, shape
// [classes, count]; weights of a class should add up to 1.
func (f *features) mean(out, x []float32, classes []int, weights []float32) {
	f.project(x, len(classes))
	for i, c := range classes {
		row := out[c*f.count : (c+1)*f.count]
		for k, a := range f.arg[i*f.count : (i+1)*f.count] {
			row[k] += weights[i] * float32(math.Cos(float64(a)))
		}
	}
}

func (f *features) project(x []float32, n int) {
	if cap(f.arg) < n*f.count {
		f.arg, f.sin = make([]float32, n*f.count), make([]float32, n*f.count)
	}
	f.arg, f.sin = f.arg[:n*f.count], f.sin[:n*f.count]
	for i := range n {
		copy(f.arg[i*f.count:(i+1)*f.count], f.b)
	}
	blas32.Gemm(blas.NoTrans, blas.Trans, 1,
		blas32.General{Rows: n, Cols: f.width, Stride: f.width, Data: x},
		blas32.General{Rows: f.count, Cols: f.width, Stride: f.width, Data: f.w}, 1,
		blas32.General{Rows: n, Cols: f.count, Stride: f.count, Data: f.arg})
}

// pull writes to grad the gradient, with respect to the records x, of the
// squared distance between their mean features and target, by class.
func (f *features) pull(grad, x []float32, classes []int, target []float32, classCount int) {
	n := len(classes)
	f.project(x, n)
	count := make([]float32, classCount)
	for _, c := range classes {
		count[c]++
	}
	gap := make([]float32, classCount*f.count)
	for i, c := range classes {
		for k, a := range f.arg[i*f.count : (i+1)*f.count] {
			s, co := math.Sincos(float64(a))
			f.sin[i*f.count+k] = float32(s)
			gap[c*f.count+k] += float32(co) / count[c]
		}
	}
	for k := range gap {
		gap[k] -= target[k]
	}
	scale := 2 / float32(f.count)
	for i, c := range classes {
		for k := range f.count {
			f.sin[i*f.count+k] *= -scale * gap[c*f.count+k] / count[c]
		}
	}
	blas32.Gemm(blas.NoTrans, blas.NoTrans, 1,
		blas32.General{Rows: n, Cols: f.count, Stride: f.count, Data: f.sin},
		blas32.General{Rows: f.count, Cols: f.width, Stride: f.width, Data: f.w}, 0,
		blas32.General{Rows: n, Cols: f.width, Stride: f.width, Data: grad})
}
