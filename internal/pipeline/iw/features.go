package iw

import (
	"fmt"
	"math"
	"slices"

	"github.com/conclave-dp/conclave/internal/ratio"
	"github.com/conclave-dp/conclave/partition/encode"
)

// FeatureOptions select what the regression sees of a record.
type FeatureOptions struct {
	// Squares adds the squares of numbers.
	Squares bool
	// Clip bounds the L2 norm of a record's features; 0 takes the 95th percentile over the synthetic rows.
	Clip float64
}

// Width is the number of features of records of an encoder.
func Width(e *encode.Encoder, classCount int, squares bool) int {
	width := 1 + e.Width()
	if classCount > 1 {
		width += classCount
	}
	if squares {
		width += len(e.Numbers())
	}
	return width
}

// least is the smallest unit of a number in [0, 1]: if all rows were equal, a real record that differs would be
// infinitely far away.
const least = 0.02

// NewFeatures makes features in units of synthetic rows x, shape [len(classes), width]:
// numbers have mean 0 and deviation 1 there, choices and classes have mean 0 and
// keep steps of 1. They are public, as the rows are.
func NewFeatures(e *encode.Encoder, x []float32, classes []int, classCount int, o FeatureOptions) (*ratio.Features,
	ratio.Spec, error) {
	w, n := e.Width(), len(classes)
	if n == 0 || len(x) != n*w {
		return nil, ratio.Spec{}, fmt.Errorf("iw: %d numbers for %d rows of %d features", len(x), n, w)
	}
	all := w
	if classCount > 1 {
		all += classCount
	}
	mean, scale := make([]float64, all), make([]float64, all)
	indicators := e.Indicators()
	for i, c := range classes {
		for j, v := range x[i*w : (i+1)*w] {
			mean[j] += float64(v) / float64(n)
		}
		if classCount > 1 {
			mean[w+c] += 1 / float64(n)
		}
	}
	for i := range classes {
		for j, v := range x[i*w : (i+1)*w] {
			d := float64(v) - mean[j]
			scale[j] += d * d / float64(n)
		}
	}
	spec := ratio.Spec{Classes: classCount, Squares: o.Squares, Indicators: indicators, Clip: o.Clip}
	for j := range all {
		unit := 1.0
		if j < w && !indicators[j] {
			unit = math.Max(least, math.Sqrt(scale[j]))
		}
		spec.Mean, spec.Scale = append(spec.Mean, float32(mean[j])), append(spec.Scale, float32(unit))
	}
	if o.Clip == 0 {
		spec.Clip = 1e9 // none passes it
		wide, err := ratio.New(spec)
		if err != nil {
			return nil, spec, err
		}
		lengths, v := make([]float64, n), make([]float64, wide.Width())
		for i, c := range classes {
			wide.At(v, x[i*w:(i+1)*w], c)
			for _, a := range v {
				lengths[i] = math.Hypot(lengths[i], a)
			}
		}
		slices.Sort(lengths)
		spec.Clip = lengths[n*95/100]
	}
	f, err := ratio.New(spec)
	return f, spec, err
}

// Vectors are the features of rows, shape [len(classes), f.Width()].
func Vectors(f *ratio.Features, x []float32, classes []int) []float64 {
	w, width := len(x)/max(1, len(classes)), f.Width()
	all := make([]float64, len(classes)*width)
	for i, c := range classes {
		f.At(all[i*width:(i+1)*width], x[i*w:(i+1)*w], c)
	}
	return all
}

// wobble is about the standard deviation that noise may add to the log-weight of the longest record if the
// regularization is chosen.
const wobble = 0.5

// Lambda returns the regularization at which noise of a kind on the coefficients causes this deviation, for
// records of the clip norm. Cost is the noise multiplier of Gaussian noise, and the epsilon of other kinds.
//
// For the L2 norm, noise has the scale cost x clip/(records lambda), or clip/(records lambda cost). The
// log-weight of a record of length clip deviates by clip times that scale. Laplace noise adds a factor sqrt(2
// width) for its larger norm, norm-Gamma noise a factor sqrt(width+1) for its length. Both then stay far inside
// the range where debiased weights have a mean.
func Lambda(kind ratio.NoiseKind, cost, clip, records float64, width int) float64 {
	d := float64(width)
	switch kind {
	case ratio.Gaussian:
		return cost * clip * clip / (records * wobble)
	case ratio.Laplace:
		return math.Sqrt(2*d) * clip * clip / (records * cost * wobble)
	case ratio.NormGamma:
		return math.Sqrt(d+1) * clip * clip / (records * cost * wobble)
	}
	return 1 / records
}
