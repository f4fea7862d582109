package gnmax

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// ErrVector matches, with errors.Is, the error for a unit's vector that cannot be encoded. The message contains none of
// its values.
var ErrVector = errors.New("unusable vector")

// maxBound keeps the square of a bound in 64 bits.
const maxBound = 1 << 30

// FixedPoint converts vectors of real numbers with a bounded L2 norm to vectors of whole numbers with a bounded L2
// norm, and back. [NewFixedPoint] makes it; both ends of a sum must use the same one.
type FixedPoint struct {
	clip  float64
	bound int64
}

// NewFixedPoint represents the norm clip by bound steps: one step is clip/bound. Clip is finite and positive; bound
// is from 1 to 2^30. Rounding removes less than one step from each entry, so a vector of d entries needs a bound well
// above sqrt(d). 2^20 is enough for most, and leaves room for a noise multiplier of 2^9 (see [NewGaussianSum]) and
// for 2^41 units.
func NewFixedPoint(clip float64, bound int64) (FixedPoint, error) {
	if !(clip > 0) || math.IsInf(clip, 0) {
		return FixedPoint{}, parameterErrorf("clip norm is %v; it must be a finite number above zero", clip)
	}
	if bound < 1 || bound > maxBound {
		return FixedPoint{}, parameterErrorf("bound is %d fixed-point steps; it must lie between 1 and 2^30", bound)
	}
	if step := clip / float64(bound); step == 0 {
		return FixedPoint{}, parameterErrorf(
			"clip norm %v in %d steps is too small for a float64; scale the vectors up", clip, bound)
	}
	return FixedPoint{clip: clip, bound: bound}, nil
}

// Clip is the L2 norm to which vectors are clipped, in their own unit.
func (f FixedPoint) Clip() float64 { return f.clip }

// Encode clips one privacy unit's vector to f's clip norm and returns it in whole steps, of the same length. Its L2
// norm is at most f's bound. Encode checks that on the whole numbers themselves, so it does not depend on
// floating-point rounding.
//
// A vector with a number that is not finite gives an [ErrVector]. Count such a unit as zeros: a sum that fails because
// of one unit reveals something about that unit.
func Encode[F float32 | float64](f FixedPoint, vector []F) ([]int64, error) {
	steps, err := AppendEncoded(make([]int64, 0, len(vector)), f, vector)
	if err != nil {
		return nil, err
	}
	return steps, nil
}

// AppendEncoded is [Encode] that appends to before, which it returns unchanged on an error.
func AppendEncoded[F float32 | float64](before []int64, f FixedPoint, vector []F) ([]int64, error) {
	if f.bound == 0 {
		return before, fmt.Errorf("%w: the fixed point was not made by its constructor", ErrParameter)
	}
	largest := 0.0
	for i, x := range vector {
		magnitude := math.Abs(float64(x))
		if math.IsNaN(magnitude) || math.IsInf(magnitude, 0) {
			return before, fmt.Errorf("%w: entry %d is not a finite number", ErrVector, i)
		}
		largest = max(largest, magnitude)
	}
	all := slices.Grow(before, len(vector))[:len(before)+len(vector)]
	steps := all[len(before):]
	if largest == 0 {
		clear(steps)
		return all, nil
	}
	// Relative to the largest entry nothing overflows.
	length := 0.0
	for _, x := range vector {
		r := float64(x) / largest
		length += r * r
	}
	length = math.Sqrt(length) // 1 or more
	scale := float64(f.bound) * min(largest/f.clip, 1/length)
	for slack := 0x1p-50; ; slack *= 2 {
		for i, x := range vector {
			steps[i] = int64(float64(x) / largest * scale) // towards zero: no entry grows
		}
		if within(steps, f.bound) {
			return all, nil
		}
		// scale was rounded up by a few parts in 2^53. If slack reaches 1, all steps are zero.
		scale *= 1 - min(slack, 1)
	}
}

// within reports whether the L2 norm is at most bound.
func within(steps []int64, bound int64) bool {
	var squares uint64 // at most bound² = 2^60, and 2^60 more before the check
	for _, x := range steps {
		if x < -bound || x > bound {
			return false
		}
		squares += uint64(x * x)
		if squares > uint64(bound*bound) {
			return false
		}
	}
	return true
}
