package ratio

import (
	"fmt"
	"math"
)

// Spec describes features. All of it is public: it must not be computed from real records without noise.
type Spec struct {
	// Mean and Scale have an entry for each number of an encoded record and, if there is more than one class, one
	// for each class after those. A number v becomes (v - Mean)/Scale; scales are above zero.
	Mean, Scale []float32
	// Classes is the number of classes, 1 if records have none.
	Classes int
	// Squares adds the squares of the standardized numbers, but not those of classes.
	Squares bool
	// Indicators marks the numbers that are always 0 or 1. Their squares would add no information and are left
	// out. Nil marks none.
	Indicators []bool
	// Clip is the L2 norm to which vectors are clipped, from 2^-100 to 2^100.
	Clip float64
}

const minClip, maxClip = 0x1p-100, 0x1p100

// Features maps records to vectors of bounded length. It is immutable and safe for concurrent use.
type Features struct {
	mean, scale []float64
	encoded     int // numbers of an encoded record
	classes     int
	squared     []int // indexes of numbers whose squares are features
	clip        float64
}

// New makes features. The error for an invalid spec is an [ErrSpec].
func New(spec Spec) (*Features, error) {
	switch {
	case spec.Classes < 1:
		return nil, fmt.Errorf("features: %w: classes are %d; use 1 for records without classes", ErrSpec, spec.Classes)
	case len(spec.Mean) != len(spec.Scale):
		return nil, fmt.Errorf("features: %w: %d means and %d scales; give both of each number", ErrSpec,
			len(spec.Mean), len(spec.Scale))
	case !(spec.Clip >= minClip && spec.Clip <= maxClip):
		return nil, fmt.Errorf("features: %w: clip is %v; it must lie between 2^-100 and 2^100", ErrSpec, spec.Clip)
	}
	f := &Features{encoded: len(spec.Mean), classes: spec.Classes, clip: spec.Clip}
	if spec.Classes > 1 {
		f.encoded -= spec.Classes
	}
	if f.encoded < 0 {
		return nil, fmt.Errorf("features: %w: %d means for %d classes; give more means than "+
			"classes", ErrSpec, len(spec.Mean),
			spec.Classes)
	}
	if spec.Indicators != nil && len(spec.Indicators) != f.encoded {
		return nil, fmt.Errorf("features: %w: %d indicators for %d numbers", ErrSpec, len(spec.Indicators), f.encoded)
	}
	for i, mean := range spec.Mean {
		m, s := float64(mean), float64(spec.Scale[i])
		if math.IsNaN(m) || math.IsInf(m, 0) || !(s > 0) || math.IsInf(s, 0) {
			return nil, fmt.Errorf("features: %w: number %d has mean %v and scale %v; both must be finite and the "+
				"scale above zero", ErrSpec, i, m, s)
		}
		f.mean, f.scale = append(f.mean, m), append(f.scale, s)
		if spec.Squares && i < f.encoded && (spec.Indicators == nil || !spec.Indicators[i]) {
			f.squared = append(f.squared, i)
		}
	}
	return f, nil
}

// Width is the length of a vector: the constant, numbers, classes and squares.
func (f *Features) Width() int { return 1 + len(f.mean) + len(f.squared) }

// Clip is the L2 norm that no vector exceeds.
func (f *Features) Clip() float64 { return f.clip }

// At writes the vector of one record to dst, of length Width: x holds its encoded numbers, class its class (0
// without classes). A record with a number that is not finite, of the wrong length or of an unknown class gives
// zeros, which do not count.
//
// The L2 norm of dst, as a real number, is at most Clip. Why: after division by its largest entry a, the vector
// has a length L >= 1. L is computed to within a relative (d+3) 2^-53, since underflow loses at most d 2^-1074. If
// a L (1+slack) > Clip, entries become (v/a) (Clip/(L (1+slack))), which 4 roundings increase by less than a
// relative 5 x 2^-53. Otherwise they are unchanged. The slack of (d+16) 2^-52 exceeds all of that, including
// underflow, which increases an entry by less than Clip 2^-900.
func (f *Features) At(dst []float64, x []float32, class int) {
	if len(x) != f.encoded || class < 0 || class >= f.classes {
		clear(dst)
		return
	}
	dst[0] = 1
	for i, v := range x {
		dst[1+i] = (float64(v) - f.mean[i]) / f.scale[i]
	}
	if f.classes > 1 {
		for c := range f.classes {
			v, i := 0.0, f.encoded+c
			if c == class {
				v = 1
			}
			dst[1+i] = (v - f.mean[i]) / f.scale[i]
		}
	}
	for k, i := range f.squared {
		dst[1+len(f.mean)+k] = dst[1+i] * dst[1+i]
	}
	shorten(dst, f.clip)
}

// shorten scales v to an L2 norm of at most clip, or to zero if it is not finite.
func shorten(v []float64, clip float64) {
	largest := 0.0
	for _, x := range v {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			clear(v)
			return
		}
		largest = max(largest, math.Abs(x))
	}
	if largest == 0 {
		return
	}
	squares := 0.0
	for _, x := range v {
		r := x / largest
		squares += r * r
	}
	length := math.Sqrt(squares) * (1 + float64(len(v)+16)*0x1p-52)
	if largest <= clip/length {
		return
	}
	for i, x := range v {
		v[i] = x / largest * (clip / length)
	}
}
