// Package tensor has the tensors of models, which optimizers move and files keep.
package tensor

import (
	"fmt"
	"math"
)

// Param is one tensor of a model with its gradient. Value and Grad share the
// shape; Grad is added to by Backward and cleared by an optimizer step.
type Param struct {
	Name  string
	Shape []int
	Value []float32
	Grad  []float32
}

// Size returns the number of values of a tensor of this shape. It fails if the number is negative or does not fit
// an int32.
func Size(shape []int) (int, error) {
	n := 1
	for _, s := range shape {
		if s < 0 || (s > 0 && n > math.MaxInt32/s) {
			return 0, fmt.Errorf("shape %v is negative or too large", shape)
		}
		n *= s
	}
	return n, nil
}

// Resize returns n numbers of any content; it reuses the memory of s if that is enough.
func Resize(s []float32, n int) []float32 {
	if cap(s) < n {
		return make([]float32, n)
	}
	return s[:n]
}
