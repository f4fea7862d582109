package tilt

import (
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"

	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/partition/encode"
	"github.com/conclave-dp/conclave/projection"
)

// features are random cosine features of few columns each: cos(w.x + b) with w
// of one to three columns, in units of the columns' present spread. Their means
// describe a distribution's low-order marginals at several length scales
// (random Fourier features, Rahimi and Recht 2007).
type features struct {
	width, count int
	w            []float32 // [count, width]
	b            []float32
	// taps are the numbers in w that are not 0, of each feature.
	taps  [][maxColumns]tap
	heads []encode.Head
	// touching lists, for each head, the features that change with it.
	touching [][]int
	// Scratch of a call, shape [records, count] each.
	arg, slope, value []float32
}

// maxColumns is the largest number of columns of a feature.
const maxColumns = 3

// tap is a column of a feature. One of weight 0 changes nothing.
type tap struct {
	column int
	weight float32
}

// lengthScales are the features' scales in units of a column's spread.
var lengthScales = [...]float64{0.3, 1, 3}

func newFeatures(rng *rand.Rand, count int, x []float32, width int, heads []encode.Head) *features {
	f := &features{width: width, count: count, w: make([]float32, count*width), b: make([]float32, count),
		taps: make([][maxColumns]tap, count), heads: heads}
	spread := spreads(x, width)
	for k := range count {
		scale := lengthScales[rng.IntN(len(lengthScales))]
		for range 1 + rng.IntN(maxColumns) {
			j := rng.IntN(width)
			f.w[k*width+j] = float32(rng.NormFloat64() / (scale * spread[j]))
		}
		f.b[k] = float32(2 * math.Pi * rng.Float64())
		taps := 0
		for j, v := range f.w[k*width : (k+1)*width] {
			if v != 0 {
				f.taps[k][taps] = tap{j, v}
				taps++
			}
		}
	}
	f.touching = make([][]int, len(heads))
	for h, head := range heads {
		lo, hi := head.Offset, head.Offset+head.Width
		switch head.Kind {
		case encode.HeadNumber:
			continue // its gradient is the derivative
		case encode.HeadMissing:
			lo-- // empties the number before it
		}
		for k := range count {
			for _, v := range f.w[k*width+lo : k*width+hi] {
				if v != 0 {
					f.touching[h] = append(f.touching[h], k)
					break
				}
			}
		}
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
	n := len(classes)
	f.value = room(f.value, n*f.count)
	eachChunk(n, func(lo, hi int) {
		value := f.value[lo*f.count : hi*f.count]
		f.project(value, x[lo*f.width:hi*f.width])
		for k, a := range value {
			value[k] = projection.Cosine(a)
		}
	})
	for i, c := range classes {
		row := out[c*f.count : (c+1)*f.count]
		for k, v := range f.value[i*f.count : (i+1)*f.count] {
			row[k] += weights[i] * v
		}
	}
}

// room returns a slice of n numbers, x where it is large enough.
func room(x []float32, n int) []float32 {
	if cap(x) < n {
		return make([]float32, n)
	}
	return x[:n]
}

// project computes the arguments of records.
func (f *features) project(arg, x []float32) {
	for ; len(x) > 0; arg, x = arg[f.count:], x[f.width:] {
		for k, t := range f.taps {
			arg[k] = f.b[k] + (t[0].weight*x[t[0].column] + t[1].weight*x[t[1].column] + t[2].weight*x[t[2].column])
		}
	}
}

func rows(x []float32, lo, hi, width int) blas32.General {
	return blas32.General{Rows: hi - lo, Cols: width, Stride: width, Data: x[lo*width : hi*width]}
}

// pull writes to grad the gradient, with respect to the records x, of the
// squared distance between the expectation of their features and target, by
// class. numbers are the generator's [pipeline.Generator.Numbers].
//
// A record's gradient is measured against the other records of its class, so
// that it estimates the distance of the expectations without bias. Against all
// of them it would estimate distance plus variance by records, and the
// generator would narrow with each step.
func (f *features) pull(grad, x, numbers []float32, classes []int, target []float32, classCount int) {
	n := len(classes)
	f.arg, f.slope, f.value = room(f.arg, n*f.count), room(f.slope, n*f.count), room(f.value, n*f.count)
	eachChunk(n, func(lo, hi int) {
		f.project(f.arg[lo*f.count:hi*f.count], x[lo*f.width:hi*f.width])
		for k, a := range f.arg[lo*f.count : hi*f.count] {
			s, co := projection.Sincos(a)
			f.slope[lo*f.count+k], f.value[lo*f.count+k] = -s, co
		}
	})
	count, sum := make([]float32, classCount), make([]float32, classCount*f.count)
	for i, c := range classes {
		count[c]++
		total := sum[c*f.count : (c+1)*f.count]
		for k, v := range f.value[i*f.count : (i+1)*f.count] {
			total[k] += v
		}
	}
	eachChunk(n, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			c := classes[i]
			scale, others := 2/(float32(f.count)*count[c]), max(1, count[c]-1)
			// From here on value holds the derivative of the distance by each feature.
			value, slope := f.value[i*f.count:(i+1)*f.count], f.slope[i*f.count:(i+1)*f.count]
			for k, v := range value {
				value[k] = scale * ((sum[c*f.count+k]-v)/others - target[c*f.count+k])
				slope[k] *= value[k]
			}
		}
		blas32.Gemm(blas.NoTrans, blas.NoTrans, 1, rows(f.slope, lo, hi, f.count), rows(f.w, 0, f.count, f.width), 0,
			rows(grad, lo, hi, f.width))
		for i := lo; i < hi; i++ {
			at, to := i*f.width, (i+1)*f.width
			f.choices(grad[at:to], x[at:to], numbers[at:to], f.arg[i*f.count:(i+1)*f.count],
				f.value[i*f.count:(i+1)*f.count])
		}
	})
}

// eachChunk runs do on all processors for ranges that cover n records. What do
// computes of a record must not depend on the range it comes in.
func eachChunk(n int, do func(lo, hi int)) {
	const chunk = 64
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), (n+chunk-1)/chunk) {
		wg.Go(func() {
			for {
				lo := int(next.Add(chunk)) - chunk
				if lo >= n {
					return
				}
				do(lo, min(n, lo+chunk))
			}
		})
	}
	wg.Wait()
}

// choices writes to grad the loss of each choice of a record: pull's gradient
// by feature times the feature's value if the choice were taken.
func (f *features) choices(grad, x, numbers, arg, by []float32) {
	for h, head := range f.heads {
		lo, hi := head.Offset, head.Offset+head.Width
		if head.Kind != encode.HeadNumber {
			clear(grad[lo:hi])
		}
		for _, k := range f.touching[h] {
			w := f.w[k*f.width : (k+1)*f.width]
			switch head.Kind {
			case encode.HeadBinary:
				zero := arg[k] - w[lo]*x[lo]
				grad[lo] += by[k] * (projection.Cosine(zero+w[lo]) - projection.Cosine(zero))
			case encode.HeadMissing:
				zero := arg[k] - w[lo]*x[lo] - w[lo-1]*x[lo-1]
				grad[lo] += by[k] * (projection.Cosine(zero+w[lo]+w[lo-1]*pipeline.EmptyNumber) -
					projection.Cosine(zero+w[lo-1]*numbers[lo-1]))
			case encode.HeadCategory:
				zero := arg[k]
				for j := lo; j < hi; j++ {
					zero -= w[j] * x[j]
				}
				none := projection.Cosine(zero)
				for j := lo; j < hi; j++ {
					if w[j] != 0 { // else it is as if no category touched it
						grad[j] += by[k] * (projection.Cosine(zero+w[j]) - none)
					}
				}
			}
		}
	}
}
