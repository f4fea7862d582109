package ratio

import (
	"fmt"
	"math"
)

// Spec describes features. All of it is public: it must not be computed from real
// records without noise.
type Spec struct {
	// Mean and Scale have an entry for each number of an encoded record, and one for
	// each class behind them where there is more than one. A number v becomes
	// (v - Mean)/Scale; scales are above zero.
	Mean, Scale []float32
	// Classes is the number of classes; 1 for records without.
	Classes int
	// Squares adds the squares of the standardized numbers, but not of classes.
	Squares bool
	// Indicators says which numbers are only ever 0 or 1: their squares would tell
	// nothing new, and are left out. Nil: none of them.
	Indicators []bool
	// Clip is the L2 norm to which records are cut, from 2^-100 to 2^100.
	Clip float64
}

const minClip, maxClip = 0x1p-100, 0x1p100

// Features are vectors of bounded length made of records. They are immutable and
// may be used by several goroutines at once.
type Features struct {
	mean, scale []float64
	encoded     int // numbers of an encoded record
	classes     int
	squared     []int // numbers whose squares are features
	clip        float64
}

// New makes features. The error for an invalid spec is an [ErrSpec].
func New(spec Spec) (*Features, error) {
	switch {
	case spec.Classes < 1:
		return nil, fmt.Errorf("features: %w: classes are %d; give 1 for records without", ErrSpec, spec.Classes)
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
		return nil, fmt.Errorf("features: %w: %d means for %d classes; each class has one too", ErrSpec, len(spec.Mean),
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

// Clip is the L2 norm that no vector passes.
func (f *Features) Clip() float64 { return f.clip }

// At writes the vector of one record to dst, of length Width: x are its encoded numbers,
// class its class (0 for records without). A record with a number that is not finite,
// of another length or with a class that there is not gives zeros, which count nowhere.
//
// The L2 norm of dst, as a real number, is at most Clip. Why: divided by its largest
// entry a, the vector has a length L of 1 or more, computed to within (d+3) 2^-53 of
// it, since underflow loses at most d 2^-1074. Where a L (1+slack) > Clip, entries
// become (v/a) (Clip/(L (1+slack))), which 4 roundings make larger by less than
// 5 x 2^-53 of it, and otherwise they stay as they are; the slack of (d+16) 2^-52 is
// more than all that. Underflow makes an entry larger by less than Clip 2^-900,
// which is covered too.
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

// shorten scales v to an L2 norm of at most clip, or to zero where it is not finite.
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
