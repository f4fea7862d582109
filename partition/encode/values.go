package encode

import "github.com/conclave-dp/conclave/partition"

// Values are the features of the values of a column of whole numbers, rising from 0 to 1:
// nil for another column, and where there are fewer than two or more than most of them.
func (e *Encoder) Values(column, most int) []float32 {
	c, s := &e.schema.Columns[column], &e.scales[column]
	if c.Kind != partition.Integer || s.hi-s.lo < 1 || s.hi-s.lo > float64(most-1) {
		return nil
	}
	var values []float32
	for v := s.lo; v <= s.hi; v++ {
		values = append(values, float32(s.encode(v)))
	}
	return values
}
