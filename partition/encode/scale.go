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
	points      map[float32]float64 // by feature; they come back as they are
	power       float64             // of ten, of the decimals that come back where the scale is not log
}

func newScaler(c *partition.Column) scaler {
	s := scaler{log: c.Scale == partition.Log, whole: c.Kind == partition.Integer}
	s.lo, s.hi = c.Range()
	s.start, s.span = s.lo, s.hi-s.lo
	if s.log {
		s.start = math.Log1p(s.lo)
		s.span = math.Log1p(s.hi) - s.start
	}
	s.power = finest(s.span * 0x1p-24)
	if len(c.Points) > 0 {
		s.points = make(map[float32]float64, len(c.Points))
	}
	for _, v := range c.Points {
		s.points[float32(s.encode(v))] = v
	}
	return s
}

// encode gives the place of v in the range, in [0,1] for v in the range.
func (s *scaler) encode(v float64) float64 {
	if s.log {
		v = math.Log1p(v)
	}
	return (v - s.start) / s.span
}

// decode is the inverse for any finite f; places beyond [0,1] give the edges.
func (s *scaler) decode(f float64) float64 {
	if v, named := s.points[float32(f)]; named {
		return v
	}
	v := s.start + min(max(f, 0), 1)*s.span
	power := s.power
	if s.log {
		v = math.Expm1(v)
		power = finest(s.span * (1 + v) * 0x1p-24)
	}
	if s.whole {
		v = math.Round(v)
	} else {
		v = dropDecimals(v, power)
	}
	// Rounding may leave the range by a hair.
	return min(max(v, s.lo), s.hi) + 0
}

// finest is the finest power of ten that is not below step. A float32 f in [0,1]
// is off by at most 2^-25, and its number by slope times that; so with step twice
// this error, a number that has no finer decimals than step comes back exactly.
func finest(step float64) float64 { return math.Ceil(math.Log10(step)) }

// dropDecimals rounds v to a power of ten.
func dropDecimals(v, power float64) float64 {
	if power < -300 || power > 300 {
		return v
	}
	if power <= 0 {
		// Dividing by a whole power of ten is correctly rounded, so the result
		// is the float64 nearest to the decimal and prints as it.
		unit := math.Pow10(int(-power))
		if scaled := v * unit; math.Abs(scaled) < partition.MaxExact {
			return math.Round(scaled) / unit
		}
		return v
	}
	unit := math.Pow10(int(power))
	return math.Round(v/unit) * unit
}

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

// Kept is what is left of a cell that is encoded and decoded: of numbers what float32 carries, of others all.
func (e *Encoder) Kept(column int, cell float64) float64 {
	s := &e.scales[column]
	if s.span == 0 || math.IsNaN(cell) {
		return cell
	}
	return s.decode(float64(float32(s.encode(cell))))
}

// Near are the numbers of a column that may be kept at the other side of v: all below lo are kept below v, all
// above hi above.
//
// A feature is off by at most 2^-25 and a number by slope times that; decimals that are dropped are less than ten times
// 2^-24 of the slope, half of which moves it, and a point is taken for numbers with its feature. All of it is below
// half of 2^-20 of the slope, which leaves room for the slope of the other number.
func (e *Encoder) Near(column int, v float64) (lo, hi float64) {
	s := &e.scales[column]
	v = min(max(v, s.lo), s.hi) // nothing is kept beyond
	by := s.span * 0x1p-20
	if s.log {
		by *= 1 + v
	}
	if s.whole {
		by++
	}
	by += max(math.Abs(s.lo), math.Abs(s.hi)) * 0x1p-45 // what float64 rounds
	return v - by, v + by
}
