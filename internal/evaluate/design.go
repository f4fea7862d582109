package evaluate

import (
	"math"

	"github.com/conclave-dp/conclave/partition"
)

// design encodes the main effects of columns as the features of a linear model: the intercept, then a number's
// place in its public range, 0 or 1 of a binary column, and one feature for each category except the first. A
// nullable column has one more feature, 1 for empty cells, whose number is then the middle of the range.
type design struct {
	schema  *partition.Schema
	columns []int
	kept    *coarse // nil: all categories are
	start   []int   // of each column's features
	width   int
}

func newDesign(schema *partition.Schema, columns []int, kept *coarse) design {
	d := design{schema: schema, columns: columns, kept: kept, width: 1}
	for _, j := range columns {
		d.start = append(d.start, d.width)
		c := &schema.Columns[j]
		if c.Kind == partition.Categorical {
			d.width += max(0, kept.size(schema, j)-1)
		} else {
			d.width++
		}
		if c.Nullable {
			d.width++
		}
	}
	return d
}

// place is the position of a number in its column's public range, 0 to 1.
func place(c *partition.Column, v float64) float64 {
	lo, hi := c.Range()
	if !(hi > lo) {
		return 0
	}
	// Halve first, since the width of the range may overflow.
	return max(0, min(1, (v/2-lo/2)/(hi/2-lo/2)))
}

// sparse holds rows with mostly zero features: the nonzero features of row i are at[start[i]:start[i+1]], with
// their values.
type sparse struct {
	width int
	start []int
	at    []int32
	value []float64
}

func (d design) rows(t *partition.Table) *sparse {
	s := &sparse{width: d.width, start: make([]int, 1, t.Len()+1)}
	put := func(feature int, v float64) {
		if v != 0 {
			s.at, s.value = append(s.at, int32(feature)), append(s.value, v)
		}
	}
	for i := range t.Len() {
		cells := t.Cells(i)
		put(0, 1)
		for k, j := range d.columns {
			c, v, at := &d.schema.Columns[j], cells[j], d.start[k]
			empty := math.IsNaN(v)
			next := at + 1
			switch {
			case c.Kind == partition.Categorical:
				next = at + max(0, d.kept.size(d.schema, j)-1)
				if empty {
					break
				}
				if n := d.kept.code(j, int(v)); n >= 1 && at+n-1 < next {
					put(at+n-1, 1)
				}
			case empty && isNumber(c):
				put(at, 0.5)
			case empty:
			case isNumber(c):
				put(at, place(c, v))
			default:
				put(at, v)
			}
			if empty && c.Nullable {
				put(next, 1)
			}
		}
		s.start = append(s.start, len(s.at))
	}
	return s
}

// append adds the rows of another table of the same design after these.
func (s *sparse) append(other *sparse) {
	offset := len(s.at)
	s.at, s.value = append(s.at, other.at...), append(s.value, other.value...)
	for _, at := range other.start[1:] {
		s.start = append(s.start, offset+at)
	}
}

func (s *sparse) len() int { return len(s.start) - 1 }

// dot is the product of row i and one coefficient per feature.
func (s *sparse) dot(i int, beta []float64) float64 {
	z := 0.0
	for k := s.start[i]; k < s.start[i+1]; k++ {
		z += s.value[k] * beta[s.at[k]]
	}
	return z
}

// spread is the weighted sum of squared distances of each feature from its mean, 0
// for constant features.
func (s *sparse) spread(weight []float64) []float64 {
	sum, square, total := make([]float64, s.width), make([]float64, s.width), 0.0
	for i, w := range weight {
		total += w
		for k := s.start[i]; k < s.start[i+1]; k++ {
			sum[s.at[k]] += w * s.value[k]
		}
	}
	if total == 0 {
		return square
	}
	// A second pass, since the difference of two large sums would lose the digits of a narrow feature. The
	// zeros count with the rest of the weight.
	zeros := make([]float64, s.width)
	for j := range zeros {
		zeros[j] = total
	}
	for i, w := range weight {
		for k := s.start[i]; k < s.start[i+1]; k++ {
			j := s.at[k]
			d := s.value[k] - sum[j]/total
			square[j] += w * d * d
			zeros[j] -= w
		}
	}
	for j := range square {
		mean := sum[j] / total
		square[j] += max(0, zeros[j]) * mean * mean
		// Rounding of the mean leaves a constant a little above zero.
		if square[j] <= 1e-24*total {
			square[j] = 0
		}
	}
	return square
}
