package strokes

import (
	"fmt"
	"math"

	"github.com/conclave-dp/conclave/internal/nn/kernel"
	"github.com/conclave-dp/conclave/internal/nn/kernel/gemm"
	"github.com/conclave-dp/conclave/internal/nn/tensor"
	"github.com/conclave-dp/conclave/partition"
)

const (
	// MostDirections bounds the directions, and mostEntries the numbers of a sum.
	MostDirections = 300
	mostEntries    = 1 << 17
	// offset is the additional number beside the normalized directions, before the whole vector is normalized.
	offset = 0.3
)

// The weights of a record's two parts: the products of its pairs, and its directions in its class. Their squares
// add up to 1.
var (
	pairWeight  = math.Sqrt(0.69)
	classWeight = math.Sqrt(1 - 0.69)
)

// Directions maps the strokes of an image to a unit vector: (strokes - mean) x matrix is normalized, the number
// offset is added, and the result is normalized again. The map is public and depends on no real record. It is safe
// for concurrent use.
type Directions struct {
	image   partition.Image
	classes int
	shift   []float32 // mean x matrix
	matrix  kernel.Matrix
}

// NewDirections takes the mean of the strokes and a matrix of shape [strokes, directions].
func NewDirections(image *partition.Image, classes int, mean, matrix []float32) (*Directions, error) {
	if err := Check(image); err != nil {
		return nil, err
	}
	count := Count(*image)
	n := len(matrix) / count
	switch {
	case classes < 2:
		return nil, fmt.Errorf("labels of %d classes; use a schema with a label of 2 classes at least", classes)
	case len(mean) != count:
		return nil, fmt.Errorf("the mean of %d strokes, and images of this schema have %d; use the same schema and "+
			"version at both sides", len(mean), count)
	case len(matrix) != n*count || n < 1 || n > MostDirections:
		return nil, fmt.Errorf("directions of %d numbers; use 1 to %d of %d numbers each", len(matrix), MostDirections,
			count)
	}
	for _, of := range [][]float32{mean, matrix} {
		for i, v := range of {
			if v-v != 0 {
				return nil, fmt.Errorf("number %d of the mean or the directions is not finite", i)
			}
		}
	}
	d := &Directions{image: *image, classes: classes, shift: make([]float32, n), matrix: kernel.Of(matrix, count, n)}
	if entries := d.Entries(); entries > mostEntries {
		return nil, fmt.Errorf("%d directions and %d classes take %d numbers, and %d is the most; use fewer directions",
			n, classes, entries, mostEntries)
	}
	gemm.Multiply(kernel.Of(d.shift, 1, n), kernel.Of(mean, 1, count), d.matrix, gemm.Epilogue{})
	return d, nil
}

// Width is the length of a vector.
func (d *Directions) Width() int { return d.matrix.Cols + 1 }

// triangle is the number of pairs of directions, including each with itself.
func (d *Directions) triangle() int { return d.Width() * (d.Width() + 1) / 2 }

// Entries is the length of a sum: the pairs, and the directions of each class.
func (d *Directions) Entries() int { return d.triangle() + d.classes*d.Width() }

// Vectors computes unit vectors of images. It is not safe for concurrent use.
type Vectors struct {
	*Directions
	finder
	strokes, at []float32
}

// Vectors allocates the memory for vectors.
func (d *Directions) Vectors() *Vectors {
	return &Vectors{Directions: d, finder: finder{image: d.image}}
}

// Of returns the vectors of n images x, shape [n, Width], valid until the next call. The vector of an image with
// strokes that are not numbers is NaN.
func (v *Vectors) Of(x []float32, n int) []float32 {
	size, count, cols, width := v.Directions.image.Size(), v.matrix.Rows, v.matrix.Cols, v.Width()
	v.strokes, v.at = tensor.Resize(v.strokes, n*count), tensor.Resize(v.at, n*width)
	for i := range n {
		v.find(v.strokes[i*count:(i+1)*count], x[i*size:(i+1)*size])
	}
	to := kernel.Matrix{Data: v.at, Rows: n, Cols: cols, Stride: width}
	gemm.Multiply(to, kernel.Of(v.strokes, n, count), v.matrix, gemm.Epilogue{})
	for i := range n {
		row := v.at[i*width : (i+1)*width]
		var squares float64
		for j, shift := range v.shift {
			row[j] -= shift
			squares += float64(row[j]) * float64(row[j])
		}
		scale := 1.0
		if squares > 0 {
			scale = 1 / math.Sqrt(squares)
		}
		whole := 1 / math.Sqrt(1+offset*offset)
		for j := range v.shift {
			row[j] = float32(scale * whole * float64(row[j]))
		}
		row[cols] = float32(offset * whole)
	}
	return v.at
}

// terms writes what a record with the unit vector z adds to a sum: its pairs, and itself in its class. Their norm
// is at most 1. The matrix z zT has norm 1 and is symmetric, so each pair stands for two of its entries and is
// multiplied by the square root of 2. The squares of the two parts' weights add up to 1.
func terms(dst []float64, z []float32) {
	at := 0
	for i, a := range z {
		dst[at] = pairWeight * float64(a) * float64(a)
		at++
		of := math.Sqrt2 * pairWeight * float64(a)
		for _, b := range z[i+1:] {
			dst[at] = of * float64(b)
			at++
		}
	}
	for i, a := range z {
		dst[at+i] = classWeight * float64(a)
	}
}

// Sums decodes a sum in steps, where bound steps stand for 1: the products of all pairs, shape [Width, Width], and
// the vectors of each class, shape [classes, Width].
func (d *Directions) Sums(steps []int64, bound int64) (products, classes []float64, err error) {
	if len(steps) != d.Entries() {
		return nil, nil, fmt.Errorf("a sum of %d numbers where %d were asked for; install matching versions of "+
			"student and aggregator", len(steps), d.Entries())
	}
	w, at := d.Width(), 0
	products = make([]float64, w*w)
	for i := range w {
		for j := i; j < w; j++ {
			v := float64(steps[at]) / float64(bound) / pairWeight
			if j > i {
				v /= math.Sqrt2
			}
			products[i*w+j], products[j*w+i] = v, v
			at++
		}
	}
	for _, v := range steps[at:] {
		classes = append(classes, float64(v)/float64(bound)/classWeight)
	}
	return products, classes, nil
}

// Spread is approximately the largest effect of the noise on the products in any direction: the spectral norm of a
// symmetric noise matrix, for sums with noise of the given multiplier.
func (d *Directions) Spread(sigma float64) float64 {
	return sigma / pairWeight * math.Sqrt(2*float64(d.Width()))
}
