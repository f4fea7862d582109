package ratio

import (
	"fmt"
	"math"
	"math/bits"
)

const (
	// MostUnits is the largest number of privacy units in a sum; the rounding bound holds up to it.
	MostUnits = 1 << 24
	// FinestBound keeps the sums of MostUnits within 2^60.
	FinestBound = 1 << 36
)

// Steps defines how sums are made of integers: Bound steps stand for Clip in a gradient and for Clip² in a
// Hessian. Nodes add up only such integers, so that no bit of a unit's contribution depends on another unit.
type Steps struct {
	Width int     // of the features
	Clip  float64 // of the features
	Bound int64   // from 1 to FinestBound, for sums that get no noise
}

// Triangle is the number of entries on and above the diagonal of a Hessian, which are sent row by row.
func Triangle(width int) int { return width * (width + 1) / 2 }

// Validate reports which number is unusable, as an [ErrSpec].
func (s Steps) Validate() error {
	switch {
	case s.Width < 1:
		return fmt.Errorf("steps: %w: width is %d; it must be 1 or more", ErrSpec, s.Width)
	case !(s.Clip >= minClip && s.Clip <= maxClip):
		return fmt.Errorf("steps: %w: clip is %v; it must lie between 2^-100 and 2^100", ErrSpec, s.Clip)
	case s.Bound < 1 || s.Bound > FinestBound:
		return fmt.Errorf("steps: %w: bound is %d; it must lie between 1 and 2^36", ErrSpec, s.Bound)
	}
	return nil
}

// Add adds one privacy unit to a sum of gradients, of length Width, at the coefficients beta. records holds the
// vectors of its k records, shape [k, Width], as [Features.At] makes them; a unit without records adds nothing.
// The unit adds the mean over its records of (p-1) x, with p = 1/(1 + exp(-beta.x)), in whole steps.
//
// The added vector has an L2 norm of at most Bound. This is checked on the integers, and holds for all records and
// all beta. Values that are not finite count as zeros.
//
// It fails with [ErrShape] for slices of wrong lengths.
func (s Steps) Add(gradient []int64, beta, records []float64) error {
	d := s.Width
	if err := s.Validate(); err != nil {
		return err
	}
	if len(beta) != d || len(gradient) != d || len(records)%d != 0 {
		return fmt.Errorf("add a unit: %w: %d coefficients, a sum of %d and %d numbers of records for %d features",
			ErrShape, len(beta), len(gradient), len(records), d)
	}
	k := len(records) / d
	if k == 0 {
		return nil
	}
	g := make([]float64, d)
	for r := range k {
		x := records[r*d : (r+1)*d]
		addTo(g, x, (sigmoid(dot(beta, x))-1)/float64(k))
	}
	s.addSteps(gradient, g, s.Clip)
	return nil
}

// Rounding bounds the L2 distance between the decoded mean of the units' gradients and the exact one: 2 steps in
// each entry. Rounding takes half a step, or one if the entry was cut towards zero. float64 loses less than
// another step while Clip |beta| (Width+2) Bound is below 2^52. (The iterates of a [Fit] have Clip |beta| below
// 110; see [Problem.Passes].)
func (s Steps) Rounding() float64 {
	return 2 * math.Sqrt(float64(s.Width)) * s.Clip / float64(s.Bound)
}

// Entries is the length of the sums of a pass.
func (s Steps) Entries() int { return s.Width + 1 + Triangle(s.Width) }

// Decode converts added sums of passes to numbers.
func (s Steps) Decode(steps []int64) (Sums, error) {
	if len(steps) != s.Entries() {
		return Sums{}, fmt.Errorf("sums of a pass: %w: %d numbers for %d features", ErrShape, len(steps), s.Width)
	}
	sums := Sums{
		Gradient: make([]float64, s.Width), Hessian: make([]float64, Triangle(s.Width)),
		Units: float64(steps[s.Width]),
	}
	for i := range sums.Gradient {
		sums.Gradient[i] = float64(steps[i]) * (s.Clip / float64(s.Bound))
	}
	for i := range sums.Hessian {
		sums.Hessian[i] = float64(steps[s.Width+1+i]) * (s.Clip * s.Clip / float64(s.Bound))
	}
	return sums, nil
}

// addSteps adds v in steps; Bound steps stand for whole. The added vector has an L2 norm of at most Bound.
func (s Steps) addSteps(sum []int64, v []float64, whole float64) {
	shorten(v, whole)
	scale := float64(s.Bound) / whole
	steps := make([]int64, len(v))
	for i, x := range v {
		steps[i] = int64(math.RoundToEven(x * scale))
	}
	// Rounding to nearest is twice as exact as rounding towards zero, but may exceed the bound.
	for slack := 0x1p-50; !within(steps, s.Bound); slack *= 2 {
		for i, x := range v {
			steps[i] = int64(x * scale)
		}
		scale *= 1 - min(slack, 1)
	}
	for i, x := range steps {
		sum[i] += x
	}
}

// within reports whether the L2 norm is at most bound.
func within(steps []int64, bound int64) bool {
	var high, low uint64 // of the sum of squares, each at most 2^72
	for _, x := range steps {
		if x < -bound || x > bound {
			return false
		}
		size := uint64(max(x, -x))
		h, l := bits.Mul64(size, size)
		var carry uint64
		low, carry = bits.Add64(low, l, 0)
		high, _ = bits.Add64(high, h, carry)
	}
	h, l := bits.Mul64(uint64(bound), uint64(bound))
	return high < h || high == h && low <= l
}

// sigmoid is 1/(1 + exp(-t)), without overflow.
func sigmoid(t float64) float64 {
	if t < 0 {
		e := math.Exp(t)
		return e / (1 + e)
	}
	return 1 / (1 + math.Exp(-t))
}

func dot(a, b []float64) float64 {
	sum := 0.0
	for i, x := range a {
		sum += x * b[i]
	}
	return sum
}

func addTo(dst, x []float64, factor float64) {
	for i, v := range x {
		dst[i] += factor * v
	}
}
