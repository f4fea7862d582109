package labels

import (
	"fmt"
	"math"
)

const (
	// mostSquare bounds the square of a standardized number, so that few far values do not hide all others.
	mostSquare = 9
	// onSquares is the weight of a square beside that of a number.
	onSquares = 0.5
)

// Scaling maps an encoded record to a unit vector: each feature and then the square of each number, all standardized
// by public means and scales, divided by the norm of the whole. It depends on no real record.
type Scaling struct {
	features    int
	numbers     []int
	mean, scale []float32 // [Width]
}

// NewScaling takes the width of a record, the places of its numbers, and a mean and a scale of each entry: of the
// features, then of the squares of the standardized numbers.
func NewScaling(features int, numbers []int, mean, scale []float32) (*Scaling, error) {
	s := &Scaling{features, numbers, mean, scale}
	if len(mean) != s.Width() || len(scale) != s.Width() {
		return nil, fmt.Errorf("means of %d and scales of %d entries, and records of this schema have %d; use the "+
			"same schema and version on both sides", len(mean), len(scale), s.Width())
	}
	for i := range mean {
		if m, by := mean[i], scale[i]; m-m != 0 || by-by != 0 {
			return nil, fmt.Errorf("mean or scale %d is not finite", i+1)
		}
	}
	return s, nil
}

// Width is the length of a vector.
func (s *Scaling) Width() int { return s.features + len(s.numbers) }

// Of writes the unit vector of a record x to z, of length Width. It returns false, and zeros, if the record has no
// direction: if it is the mean itself, or holds a number that is not finite.
func (s *Scaling) Of(z []float64, x []float32) bool {
	for j := range s.features {
		z[j] = float64(x[j]-s.mean[j]) * float64(s.scale[j])
	}
	for k, j := range s.numbers {
		at := s.features + k
		z[at] = (min(mostSquare, z[j]*z[j]) - float64(s.mean[at])) * float64(s.scale[at])
	}
	largest := 0.0
	for _, v := range z {
		largest = max(largest, math.Abs(v)) // NaN if one is
	}
	if !(largest > 0) || math.IsInf(largest, 0) {
		clear(z)
		return false
	}
	var squares float64
	for _, v := range z { // relative to the largest, so that nothing overflows
		squares += (v / largest) * (v / largest)
	}
	norm := math.Sqrt(squares)
	for j := range z {
		z[j] = z[j] / largest / norm
	}
	return true
}

// Fit returns the scaling by which the entries of records x, shape [n, features], have mean 0 and variance 1, squares
// half of that standard deviation. An entry with a deviation below least is scaled by 1/least.
func Fit(features int, numbers []int, x []float32, least float64) (*Scaling, error) {
	s := &Scaling{features, numbers, make([]float32, features+len(numbers)), make([]float32, features+len(numbers))}
	n := len(x) / features
	standardize := func(lo, hi int, weight float64, entry func(i, j int) float64) {
		for j := lo; j < hi; j++ {
			var sum, squares float64
			for i := range n {
				v := entry(i, j)
				sum, squares = sum+v, squares+v*v
			}
			mean := sum / float64(n)
			deviation := math.Sqrt(max(0, squares/float64(n)-mean*mean))
			s.mean[j], s.scale[j] = float32(mean), float32(weight/max(least, deviation))
		}
	}
	standardize(0, features, 1, func(i, j int) float64 { return float64(x[i*features+j]) })
	standardize(features, s.Width(), onSquares, func(i, k int) float64 {
		j := numbers[k-features]
		v := float64(x[i*features+j]-s.mean[j]) * float64(s.scale[j])
		return min(mostSquare, v*v)
	})
	return NewScaling(features, numbers, s.mean, s.scale)
}
