package tilt

import (
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/conclave-dp/conclave/internal/nn/kernel"
	"github.com/conclave-dp/conclave/internal/nn/kernel/gemm"
	"github.com/conclave-dp/conclave/internal/nn/kernel/vector"
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
	// taps are the nonzero numbers in w, for each feature, and then noTap.
	taps  [][maxColumns]tap
	heads []encode.Head
	// touching lists, for each head, the features that change with it.
	touching [][]touch
	scratch
}

// scratch is memory of a call.
type scratch struct {
	arg, sine, cosine, by, slope []float32 // [records, count] each; by is the derivative of the distance
	sums                         []float32 // of mean
}

// maxColumns is the largest number of columns of a feature.
const maxColumns = 3

// tap is a column of a feature, with the cosine and sine of its weight.
type tap struct {
	column               int
	weight, cosine, sine float32
}

// touch is a feature that changes with a head, and its taps there.
type touch struct {
	feature int
	taps    []tap
}

// tap is the contribution of a column to the feature's angle, which may be zero.
func (t touch) tap(column int) tap {
	for _, tap := range t.taps {
		if tap.column == column {
			return tap
		}
	}
	return noTap
}

// noTap adds nothing to an angle.
var noTap = tap{cosine: 1}

// turned is the cosine of an angle plus a tap's weight, from the angle's cosine and sine.
func (t *tap) turned(c, s float32) float32 { return c*t.cosine - s*t.sine }

// back is the cosine and the sine of an angle minus a tap's weight, from those of the angle.
func (t *tap) back(c, s float32) (cosine, sine float32) {
	return c*t.cosine + s*t.sine, s*t.cosine - c*t.sine
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
		f.taps[k] = [...]tap{noTap, noTap, noTap}
		taps := 0
		for j, v := range f.w[k*width : (k+1)*width] {
			if v != 0 {
				sine, cosine := math.Sincos(float64(v))
				f.taps[k][taps] = tap{j, v, float32(cosine), float32(sine)}
				taps++
			}
		}
	}
	f.touching = make([][]touch, len(heads))
	for h, head := range heads {
		lo, hi := head.Offset, head.Offset+head.Width
		switch head.Kind {
		case encode.HeadNumber:
			continue // its gradient is the derivative
		case encode.HeadMissing:
			lo-- // empties the number before it
		}
		for k := range f.taps {
			t := touch{feature: k}
			for _, tap := range f.taps[k] {
				if tap != noTap && tap.column >= lo && tap.column < hi {
					t.taps = append(t.taps, tap)
				}
			}
			if t.taps != nil {
				f.touching[h] = append(f.touching[h], t)
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
	n, classCount := len(classes), len(out)/f.count
	f.sums = room(f.sums, (n+chunk-1)/chunk*len(out))
	var spare sync.Pool // memory for a chunk
	eachChunk(n, func(lo, hi int) {
		own, _ := spare.Get().(*[]float32)
		if own == nil {
			fresh := make([]float32, chunk*(f.count+f.width+1+classCount))
			own = &fresh
		}
		defer spare.Put(own)
		m, rest := hi-lo, *own
		take := func(n int) (part []float32) {
			part, rest = rest[:n], rest[n:]
			return part
		}
		values, columns, by := take(m*f.count), take(m*(f.width+1)), take(m*classCount)
		f.transpose(columns, x[lo*f.width:hi*f.width], m)
		f.projectColumns(values, columns, m)
		vector.Cosine(values, values)
		// A record's weight is in the column of its class.
		clear(by)
		for i := range m {
			by[i*classCount+classes[lo+i]] = weights[lo+i]
		}
		sums := f.sums[lo/chunk*len(out):][:len(out)]
		gemm.Multiply(kernel.Of(sums, f.count, classCount), kernel.Of(values, f.count, m), kernel.Of(by, m, classCount),
			gemm.Epilogue{})
	})
	for sums := f.sums; len(sums) > 0; sums = sums[len(out):] {
		for k := range f.count {
			for c := range classCount {
				out[c*f.count+k] += sums[k*classCount+c]
			}
		}
	}
}

// transpose writes the columns of m records one after the other, and then a column of ones.
func (f *features) transpose(columns, x []float32, m int) {
	for j := range f.width {
		for i := range m {
			columns[j*m+i] = x[i*f.width+j]
		}
	}
	ones := columns[f.width*m:]
	for i := range ones {
		ones[i] = 1
	}
}

// projectColumns computes the arguments of m records, feature by feature, from their columns.
func (f *features) projectColumns(arg, columns []float32, m int) {
	clear(arg)
	for k, taps := range f.taps {
		to := arg[k*m : (k+1)*m]
		vector.AddScaled(to, columns[f.width*m:], f.b[k])
		for _, t := range taps {
			if t.weight != 0 {
				vector.AddScaled(to, columns[t.column*m:(t.column+1)*m], t.weight)
			}
		}
	}
}

// room returns a slice of n numbers; it reuses x if that is large enough.
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

// pull writes to grad the gradient, with respect to the records x, of the squared distance between the
// expectation of their features and target, by class. numbers are the generator's [pipeline.Generator.Numbers].
//
// A record's gradient uses the mean of the other records of its class, so that it estimates the distance of the
// expectations without bias. With all records it would estimate distance plus variance over the records, and
// the generator would narrow with each step.
func (f *features) pull(grad, x, numbers []float32, classes []int, target []float32, classCount int) {
	n := len(classes)
	for _, memory := range []*[]float32{&f.arg, &f.sine, &f.cosine, &f.by, &f.slope} {
		*memory = room(*memory, n*f.count)
	}
	eachChunk(n, func(lo, hi int) {
		at, to := lo*f.count, hi*f.count
		f.project(f.arg[at:to], x[lo*f.width:hi*f.width])
		vector.Cosine(f.cosine[at:to], f.arg[at:to])
		vector.Sine(f.sine[at:to], f.arg[at:to])
	})
	count, sum := make([]float32, classCount), make([]float32, classCount*f.count)
	for i, c := range classes {
		count[c]++
		vector.AddScaled(sum[c*f.count:(c+1)*f.count], f.cosine[i*f.count:(i+1)*f.count], 1)
	}
	eachChunk(n, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			c := classes[i]
			scale, others := 2/(float32(f.count)*count[c]), 1/max(1, count[c]-1)
			at, to := i*f.count, (i+1)*f.count
			sine, cosine, by, slope := f.sine[at:to], f.cosine[at:to], f.by[at:to], f.slope[at:to]
			sum, target := sum[c*f.count:(c+1)*f.count], target[c*f.count:(c+1)*f.count]
			for k, v := range cosine {
				by[k] = scale * ((sum[k]-v)*others - target[k])
				slope[k] = -sine[k] * by[k]
			}
		}
		gemm.Multiply(kernel.Of(grad[lo*f.width:hi*f.width], hi-lo, f.width),
			kernel.Of(f.slope[lo*f.count:hi*f.count], hi-lo, f.count), kernel.Of(f.w, f.count, f.width),
			gemm.Epilogue{})
		for i := lo; i < hi; i++ {
			at, to := i*f.width, (i+1)*f.width
			f.choices(i, grad[at:to], x[at:to], numbers[at:to])
		}
	})
}

// chunk is the number of records that a processor takes at a time.
const chunk = 64

// eachChunk runs do on all processors for ranges that cover n records, each starting at a multiple of chunk. The
// result for a record must not depend on the processor.
func eachChunk(n int, do func(lo, hi int)) {
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

// choices writes to grad the loss of each choice of record i: pull's gradient by feature times the feature's
// value for that choice. Only numbers need new cosines: a choice of 0 or 1 adds a tap's weight to an angle.
func (f *features) choices(i int, grad, x, numbers []float32) {
	at, to := i*f.count, (i+1)*f.count
	arg, sine, cosine, by := f.arg[at:to], f.sine[at:to], f.cosine[at:to], f.by[at:to]
	for h, head := range f.heads {
		lo := head.Offset
		if head.Kind == encode.HeadNumber {
			continue
		}
		clear(grad[lo : lo+head.Width])
		switch head.Kind {
		case encode.HeadBinary:
			for _, touch := range f.touching[h] {
				k, t := touch.feature, &touch.taps[0]
				if x[lo] == 1 {
					zero, _ := t.back(cosine[k], sine[k])
					grad[lo] += by[k] * (cosine[k] - zero)
				} else {
					grad[lo] += by[k] * (t.turned(cosine[k], sine[k]) - cosine[k])
				}
			}
		case encode.HeadMissing:
			for _, touch := range f.touching[h] {
				k, number, empty := touch.feature, touch.tap(lo-1).weight, touch.tap(lo).weight
				zero := arg[k] - empty*x[lo] - number*x[lo-1]
				grad[lo] += by[k] * (projection.Cosine(zero+empty+number*pipeline.EmptyNumber) -
					projection.Cosine(zero+number*numbers[lo-1]))
			}
		case encode.HeadCategory:
			taken := lo + slices.Index(x[lo:lo+head.Width], 1)
			for _, touch := range f.touching[h] {
				// Remove the drawn category.
				k := touch.feature
				c, s := cosine[k], sine[k]
				for i := range touch.taps {
					if t := &touch.taps[i]; t.column == taken {
						c, s = t.back(c, s)
						break
					}
				}
				for i := range touch.taps { // others are the values as if no category touched the feature
					t := &touch.taps[i]
					grad[t.column] += by[k] * (t.turned(c, s) - c)
				}
			}
		}
	}
}
