package question

import (
	"fmt"
	"math"
)

// MinBound and MaxBound are the smallest and the largest fixed-point unit of a sum that aggregators accept.
const (
	MinBound = 1 << 8
	MaxBound = 1 << 20
)

// CheckBound refuses other fixed-point units; what names the numbers of the sum.
func CheckBound(what string, bound uint64) error {
	if bound < MinBound || bound > MaxBound {
		return fmt.Errorf("the fixed-point bound of %s is %d; use %d to %d", what, bound, MinBound, MaxBound)
	}
	return nil
}

// CheckClip refuses a largest norm of gradients that is none.
func CheckClip(clip float64) error {
	if !(clip > 0) || math.IsInf(clip, 0) {
		return fmt.Errorf("gradients are clipped at %v; use a number above 0", clip)
	}
	return nil
}
