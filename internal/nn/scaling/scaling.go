// Package scaling expresses columns of records in the units of a reference sample.
package scaling

import (
	"fmt"
	"math"
)

// Scaler standardizes records by a reference sample: each column becomes its distance from the sample's mean in
// the record's class, in standard deviations. The squares of some columns follow. A linear model of these values
// can tell how far to move a column and whether to widen it, even if the column is narrow.
//
// The reference must not be private, or its use must be paid for.
type Scaler struct {
	width   int
	squares []int
	// mean and scale, one over the spread, have shape [classes, width].
	mean, scale []float32
}

// reach bounds a standardized value, so that a record far outside the reference does not outweigh all others.
const reach = 4

// The standard deviation of a column is at least this, so that a column that is constant in the reference does not
// blow up: for columns to be squared (numbers in [0, 1]) and for others (zeros and ones).
const (
	minNumberSpread = 0.03
	minFlagSpread   = 0.3
)

// New takes the units from the reference records x, shape
// [len(classes), width]. squares lists the columns to square. A class without
// records takes the units of a uniform column.
func New(x []float32, classes []int, width, classCount int, squares []int) (*Scaler, error) {
	if width < 1 || classCount < 1 || len(x) != len(classes)*width {
		return nil, fmt.Errorf("scaling: reference of %d values for %d records of %d features in %d classes",
			len(x), len(classes), width, classCount)
	}
	s := &Scaler{width: width, squares: squares, mean: make([]float32, classCount*width),
		scale: make([]float32, classCount*width)}
	least := make([]float64, width)
	for j := range least {
		least[j] = minFlagSpread
	}
	for _, j := range squares {
		if j < 0 || j >= width {
			return nil, fmt.Errorf("scaling: column %d to square of %d features", j, width)
		}
		least[j] = minNumberSpread
	}
	sum, square, count := make([]float64, len(s.mean)), make([]float64, len(s.mean)), make([]float64, classCount)
	for i, c := range classes {
		if c < 0 || c >= classCount {
			return nil, fmt.Errorf("scaling: class %d of %d", c, classCount)
		}
		count[c]++
		for j, v := range x[i*width : (i+1)*width] {
			sum[c*width+j] += float64(v)
			square[c*width+j] += float64(v) * float64(v)
		}
	}
	for k := range s.mean {
		n, mean, spread := count[k/width], 0.5, 1/math.Sqrt(12)
		if n > 0 {
			mean = sum[k] / n
			spread = math.Sqrt(math.Max(0, square[k]/n-mean*mean))
		}
		s.mean[k], s.scale[k] = float32(mean), float32(1/math.Max(spread, least[k%width]))
	}
	return s, nil
}

// Width returns the number of values of a standardized record.
func (s *Scaler) Width() int { return s.width + len(s.squares) }

// Apply writes the standardized record x of a class to dst, of length Width.
func (s *Scaler) Apply(dst, x []float32, class int) {
	mean, scale := s.mean[class*s.width:(class+1)*s.width], s.scale[class*s.width:(class+1)*s.width]
	dst = dst[:s.width+len(s.squares)]
	for j, v := range x[:s.width] {
		dst[j] = max(-reach, min(reach, (v-mean[j])*scale[j]))
	}
	for k, j := range s.squares {
		// Mean 0 and, for a normal column, standard deviation 1.
		dst[s.width+k] = (dst[j]*dst[j] - 1) / math.Sqrt2
	}
}

// Change converts a step of a class's standardized columns into one of the original columns, without the squares;
// both have the width of a record.
func (s *Scaler) Change(dst, step []float32, class int) {
	scale := s.scale[class*s.width : (class+1)*s.width]
	for j, v := range step {
		dst[j] = v / scale[j]
	}
}

// FromUnits makes a Scaler from the result of Units: the mean and the inverse standard deviation of each class and
// column, shape [classes, width].
func FromUnits(mean, scale []float32, width, classCount int, squares []int) (*Scaler, error) {
	s, err := New(nil, nil, width, classCount, squares)
	if err != nil {
		return nil, err
	}
	if len(mean) != len(s.mean) || len(scale) != len(s.scale) {
		return nil, fmt.Errorf("scaling: units of %d means and %d scales for %d columns in %d classes",
			len(mean), len(scale), width, classCount)
	}
	for i := range mean {
		if !(math.Abs(float64(mean[i])) <= 1e6) || !(scale[i] > 0 && scale[i] <= 1e6) {
			return nil, fmt.Errorf("scaling: units of column %d in class %d are no numbers, or too large",
				i%width, i/width)
		}
	}
	copy(s.mean, mean)
	copy(s.scale, scale)
	return s, nil
}

// Units returns what FromUnits takes. The caller must not change it.
func (s *Scaler) Units() (mean, scale []float32) { return s.mean, s.scale }

// Slope turns the gradient dz with respect to a class's standardized record z, of length Width, into the gradient
// with respect to the record. It ignores the limits of columns, so that a generator outside them returns.
func (s *Scaler) Slope(dx, dz, z []float32, class int) {
	scale := s.scale[class*s.width : (class+1)*s.width]
	copy(dx, dz[:s.width])
	for k, j := range s.squares {
		dx[j] += dz[s.width+k] * SquareSlope(z[j])
	}
	for j, v := range scale {
		dx[j] *= v
	}
}

// SquareSlope returns the slope of a square by its standardized column z.
func SquareSlope(z float32) float32 { return math.Sqrt2 * z }

// All returns the standardized records x, shape [len(classes), width], as
// [len(classes), Width].
func (s *Scaler) All(x []float32, classes []int) []float32 {
	w := s.Width()
	out := make([]float32, len(classes)*w)
	for i, c := range classes {
		s.Apply(out[i*w:(i+1)*w], x[i*s.width:(i+1)*s.width], c)
	}
	return out
}
