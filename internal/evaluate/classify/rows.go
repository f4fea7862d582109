package classify

import (
	"errors"
	"fmt"
	"math"

	"github.com/conclave-dp/conclave/internal/evaluate/classify/trees"
	"github.com/conclave-dp/conclave/internal/evaluate/measure"
)

// Rows are what a classifier is fitted to. A row of weight 2 counts as the row
// twice, a row of weight 0 is left out; a nil Weight is 1 for each row. Weights
// are finite and not negative: 0, or from 1e-100 to 1e100. They count rows, so
// that they act on all that depends on the number of rows (penalties, least
// rows of a leaf) as well.
type Rows struct {
	X        Matrix
	Positive []bool
	Weight   []float64
}

// ErrWeight says that the weights of rows cannot be used; the message says why.
var ErrWeight = errors.New("unusable weights of rows")

// Weights beyond are refused, as their products would leave the range of floats.
const (
	leastWeight   = 1e-100
	largestWeight = 1e100
)

// training holds rows that were checked.
type training struct {
	x       Matrix
	label   []float64 // 1 positive, 0 negative
	weight  []float64 // above 0
	uniform bool      // all weights are 1
	// Sums of weights: of both classes, and of all.
	pos, neg, total float64
}

// prepare checks the rows and leaves out those of weight 0.
func (r Rows) prepare() (training, error) {
	if err := r.X.check(); err != nil {
		return training{}, err
	}
	if len(r.Positive) != r.X.Rows {
		return training{}, fmt.Errorf("%d rows but %d labels", r.X.Rows, len(r.Positive))
	}
	kept, err := r.withWeight()
	if err != nil {
		return training{}, err
	}
	if _, _, err := measure.CountClasses(kept.Positive); err != nil {
		return training{}, err
	}
	t := training{x: kept.X, weight: kept.Weight, label: make([]float64, kept.X.Rows), uniform: true}
	for i, w := range t.weight {
		if kept.Positive[i] {
			t.label[i] = 1
			t.pos += w
		} else {
			t.neg += w
		}
		t.uniform = t.uniform && w == 1
	}
	t.total = t.pos + t.neg
	return t, nil
}

// withWeight gives the rows of weight above 0, each with its weight.
func (r Rows) withWeight() (Rows, error) {
	if r.Weight == nil {
		r.Weight = make([]float64, r.X.Rows)
		for i := range r.Weight {
			r.Weight[i] = 1
		}
		return r, nil
	}
	if len(r.Weight) != r.X.Rows {
		return r, fmt.Errorf("%w: %d rows but %d weights", ErrWeight, r.X.Rows, len(r.Weight))
	}
	n := 0
	for i, w := range r.Weight {
		if w != 0 && !(w >= leastWeight && w <= largestWeight) {
			return r, fmt.Errorf("%w: row %d has weight %v: want 0, or %v to %v", ErrWeight, i+1, w, leastWeight,
				largestWeight)
		}
		if w > 0 {
			n++
		}
	}
	if n == 0 {
		return r, fmt.Errorf("%w: all %d are 0: give rows of both classes a weight", ErrWeight, len(r.Weight))
	}
	if n == r.X.Rows {
		return r, nil
	}
	kept := Rows{
		X:        Matrix{Rows: n, Cols: r.X.Cols, Data: make([]float64, 0, n*r.X.Cols)},
		Positive: make([]bool, 0, n),
		Weight:   make([]float64, 0, n),
	}
	for i, w := range r.Weight {
		if w > 0 {
			kept.X.Data = append(kept.X.Data, r.X.Row(i)...)
			kept.Positive = append(kept.Positive, r.Positive[i])
			kept.Weight = append(kept.Weight, w)
		}
	}
	return kept, nil
}

// binned sorts each column into at most limit bins.
func (t training) binned(limit int) trees.Bins {
	weight := t.weight
	if t.uniform {
		weight = nil
	}
	return trees.Bin(t.x.Data, t.x.Cols, weight, limit)
}

// logOdds of the classes' weights.
func (t training) logOdds() float64 { return math.Log(t.pos / t.neg) }

// standardization gives each column's mean and standard deviation (divisor: the
// total weight; 1 for a constant column, which then never gets a coefficient).
func (t training) standardization() (mean, scale []float64) {
	mean, scale = make([]float64, t.x.Cols), make([]float64, t.x.Cols)
	for i, w := range t.weight {
		for j, v := range t.x.Row(i) {
			mean[j] += w * v
		}
	}
	for j := range mean {
		mean[j] /= t.total
	}
	for i, w := range t.weight {
		for j, v := range t.x.Row(i) {
			d := v - mean[j]
			scale[j] += w * (d * d)
		}
	}
	for j := range scale {
		scale[j] = math.Sqrt(scale[j] / t.total)
		// Rounding of the mean leaves a constant column a little above zero.
		if scale[j] <= 1e-12*math.Max(1, math.Abs(mean[j])) {
			scale[j] = 1
		}
	}
	return mean, scale
}

// standardize gives (x - mean) / scale.
func standardize(x Matrix, mean, scale []float64) Matrix {
	out := Matrix{Rows: x.Rows, Cols: x.Cols, Data: make([]float64, len(x.Data))}
	for i := range x.Rows {
		row := out.Row(i)
		for j, v := range x.Row(i) {
			row[j] = (v - mean[j]) / scale[j]
		}
	}
	return out
}
