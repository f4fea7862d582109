package classify

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/conclave-dp/conclave/internal/evaluate/classify/trees"
	"github.com/conclave-dp/conclave/internal/evaluate/measure"
)

// Rows are the training rows of a classifier. A row of weight 2 counts as two rows, a row of weight 0 is left
// out; a nil Weight is 1 for each row. Weights are finite and not negative: 0, or from 1e-100 to 1e100. They
// count rows, so they also affect everything that depends on the number of rows (penalties, least rows of a
// leaf).
type Rows struct {
	X        Matrix
	Positive []bool
	Weight   []float64
}

// ErrWeight means that the weights of rows cannot be used; the message says why.
var ErrWeight = errors.New("unusable weights of rows")

// Weights outside these limits are refused, since their products would overflow or underflow.
const (
	leastWeight   = 1e-100
	largestWeight = 1e100
)

// training holds rows that were checked.
type training struct {
	x       Matrix
	label   []float64 // 1 positive, 0 negative; a number for regressors
	weight  []float64 // above 0
	uniform bool      // all weights are 1
	least   float64   // smallest deviation by which a feature is scaled
	// Sums of weights: of both classes, and of all.
	pos, neg, total float64
}

// prepare checks the rows and drops those of weight 0.
func (r Rows) prepare() (training, error) {
	if err := r.X.check(); err != nil {
		return training{}, err
	}
	if len(r.Positive) != r.X.Rows {
		return training{}, fmt.Errorf("%d rows but %d labels", r.X.Rows, len(r.Positive))
	}
	label := make([]float64, r.X.Rows)
	for i, positive := range r.Positive {
		if positive {
			label[i] = 1
		}
	}
	t, err := weigh(r.X, label, r.Weight)
	if err != nil {
		return t, err
	}
	positive := make([]bool, t.x.Rows)
	for i, w := range t.weight {
		if positive[i] = t.label[i] == 1; positive[i] {
			t.pos += w
		} else {
			t.neg += w
		}
	}
	t.total = t.pos + t.neg
	return t, measure.CheckClasses(positive)
}

// weigh returns the rows of weight above 0, each with its label and weight.
func weigh(x Matrix, label, weight []float64) (training, error) {
	t := training{x: x, label: slices.Clone(label), weight: weight, uniform: true}
	if weight == nil {
		t.weight, t.total = slices.Repeat([]float64{1}, x.Rows), float64(x.Rows)
		return t, nil
	}
	if len(weight) != x.Rows {
		return t, fmt.Errorf("%w: %d rows but %d weights", ErrWeight, x.Rows, len(weight))
	}
	kept := make([]int, 0, x.Rows)
	for i, w := range weight {
		if w != 0 && !(w >= leastWeight && w <= largestWeight) {
			return t, fmt.Errorf("%w: row %d has weight %v: want 0, or %v to %v", ErrWeight, i+1, w, leastWeight,
				largestWeight)
		}
		if w > 0 {
			kept = append(kept, i)
			t.total += w
			t.uniform = t.uniform && w == 1
		}
	}
	switch len(kept) {
	case 0:
		return t, fmt.Errorf("%w: all %d are 0: give rows of both classes a weight", ErrWeight, len(weight))
	case x.Rows:
		return t, nil
	}
	t.x = Matrix{Rows: len(kept), Cols: x.Cols, Data: make([]float64, 0, len(kept)*x.Cols)}
	t.label, t.weight = nil, nil
	for _, i := range kept {
		t.x.Data = append(t.x.Data, x.Row(i)...)
		t.label, t.weight = append(t.label, label[i]), append(t.weight, weight[i])
	}
	return t, nil
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

// prior is the mean label.
func (t training) prior() float64 { return t.pos / t.total }

// centers returns the mean features of the rows of each class.
func (t training) centers(x Matrix) (center [2][]float64) {
	weight := [2]float64{t.neg, t.pos}
	for c := range 2 {
		center[c] = make([]float64, x.Cols)
	}
	for i, w := range t.weight {
		c := int(t.label[i])
		for j, v := range x.Row(i) {
			center[c][j] += w / weight[c] * v
		}
	}
	return center
}

// standardization returns each column's mean and standard deviation (divisor: the total weight; 1 for a
// constant column, which then never gets a coefficient).
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
		scale[j] = math.Max(scale[j], t.least)
	}
	return mean, scale
}

// standardize returns (x - mean) / scale.
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
