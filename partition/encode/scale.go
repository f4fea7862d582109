package encode

import (
	"math"

	"github.com/conclave-dp/conclave/partition"
)

// scaler maps the public range of a number to [0,1] and back.
type scaler struct {
	lo, hi      float64
	log         bool
	whole       bool
	start, span float64             // of the range after the transform
	points      map[float32]float64 // by feature; these decode exactly
}

func newScaler(c *partition.Column) scaler {
	s := scaler{log: c.Scale == partition.Log, whole: c.Kind == partition.Integer}
	s.lo, s.hi = c.Range()
	s.start, s.span = s.lo, s.hi-s.lo
	if s.log {
		s.start = math.Log1p(s.lo)
		s.span = math.Log1p(s.hi) - s.start
	}
	if len(c.Points) > 0 {
		s.points = make(map[float32]float64, len(c.Points))
	}
	for _, v := range c.Points {
		s.points[float32(s.encode(v))] = v
	}
	return s
}

// encode returns the position of v in the range, in [0,1] if v is in the range.
func (s *scaler) encode(v float64) float64 {
	if s.log {
		v = math.Log1p(v)
	}
	return (v - s.start) / s.span
}

// decode is the inverse for any finite f; positions outside [0,1] give the edges.
func (s *scaler) decode(f float64) float64 {
	if v, named := s.points[float32(f)]; named {
		return v
	}
	v := s.start + min(max(f, 0), 1)*s.span
	slope := s.span
	if s.log {
		v = math.Expm1(v)
		slope *= 1 + v
	}
	if s.whole {
		v = math.Round(v)
	} else {
		v = dropDecimals(v, slope*0x1p-24)
	}
	// Rounding may leave the range slightly.
	return min(max(v, s.lo), s.hi) + 0
}

// dropDecimals rounds v to the finest power of ten that is at least step. A float32 f in [0,1] is off by at most
// 2^-25, and its number by slope times that. With step twice this error, a number without decimals finer than step is
// restored exactly.
func dropDecimals(v, step float64) float64 {
	power := math.Ceil(math.Log10(step))
	if power < -300 || power > 300 {
		return v
	}
	if power <= 0 {
		// Dividing by a whole power of ten is correctly rounded, so the result is the float64 nearest to the decimal
		// and prints like it.
		unit := math.Pow10(int(-power))
		if scaled := v * unit; math.Abs(scaled) < partition.MaxExact {
			return math.Round(scaled) / unit
		}
		return v
	}
	unit := math.Pow10(int(power))
	return math.Round(v/unit) * unit
}

// Values are the features of all values of a whole-number column, ascending from 0 to 1. It is nil for another
// column, and for fewer than two or more than most values.
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

// Kept is a cell after encoding and decoding: numbers as far as float32 carries them, other cells unchanged.
func (e *Encoder) Kept(column int, cell float64) float64 {
	s := &e.scales[column]
	if s.span == 0 || math.IsNaN(cell) {
		return cell
	}
	return s.decode(float64(float32(s.encode(cell))))
}

// Near returns the numbers of a column that may decode to the other side of v: all below lo decode to below v, all
// above hi to above it.
//
// A feature is off by at most 2^-25 and a number by slope times that. Dropped decimals are below ten times 2^-24 of
// the slope, and move the number by half of that. A point replaces numbers with the same feature. The total is below
// half of 2^-20 of the slope, which leaves room for the slope of the other number.
func (e *Encoder) Near(column int, v float64) (lo, hi float64) {
	s := &e.scales[column]
	v = min(max(v, s.lo), s.hi) // nothing decodes beyond the range
	by := s.span * 0x1p-20
	if s.log {
		by *= 1 + v
	}
	if s.whole {
		by++
	}
	by += max(math.Abs(s.lo), math.Abs(s.hi)) * 0x1p-45 // float64 rounding
	return v - by, v + by
}
