package embedding

import (
	"errors"
	"fmt"
	"math"

	"github.com/conclave-dp/conclave/partition"
)

// Features makes the vectors. It is safe for use by several goroutines at once.
type Features struct {
	width, classes, count int
	norm                  float64
	parts                 []block
}

// block is a part with its layout. Its numbers are [0, count()).
type block interface {
	count() int
	// each writes the vectors of n records. add says that number at of record i is value;
	// of a record, numbers come in order and each at most once.
	each(x []float32, n int, add func(i, at int, value float32))
	// slope adds to dx, shape [n, width], the gradient by the records for the gradient by
	// the vectors: weights(i) is that of record i, of count() numbers.
	slope(dx, x []float32, n int, weights func(i int) []float32)
}

// New lays out the vectors of records of e. Classes are those that sums are kept apart by,
// 1 where there are none.
func New(e *partition.Encoder, classes int, parts []Part) (*Features, error) {
	if e.Width() < 1 {
		return nil, errors.New("embedding: records of no features; the schema needs a column beside its label")
	}
	if classes < 1 || classes > MaxSize {
		return nil, fmt.Errorf("embedding: %d classes; use 1 to %d", classes, MaxSize)
	}
	if len(parts) == 0 {
		return nil, errors.New("embedding: no parts; name at least one")
	}
	f := &Features{width: e.Width(), classes: classes}
	var squares float64
	for i, p := range parts {
		if err := p.check(); err != nil {
			return nil, fmt.Errorf("embedding: part %d (%s): %w", i, p.Kind, err)
		}
		b, err := p.lay(e, MaxSize/classes-f.count)
		if err != nil {
			return nil, fmt.Errorf("embedding: part %d (%s): %w", i, p.Kind, err)
		}
		if b == nil {
			continue // a single column has no pairs
		}
		f.parts = append(f.parts, b)
		f.count += b.count()
		squares += p.Weight * p.Weight
		if f.count > MaxSize/classes {
			return nil, fmt.Errorf("embedding: more than %d numbers for %d classes up to part %d (%s); use fewer bins or a smaller count", MaxSize, classes, i, p.Kind)
		}
	}
	if len(f.parts) == 0 {
		return nil, errors.New("embedding: the parts hold no number: a table of one column has no pairs")
	}
	f.norm = math.Sqrt(squares)
	return f, nil
}

// lay makes the block of a checked part, of at most room numbers; nil for one without any.
func (p Part) lay(e *partition.Encoder, room int) (block, error) {
	switch p.Kind {
	case Ones:
		return ones(p.Weight), nil
	case Columns:
		return newSingles(p, e, room)
	case Pairs:
		return newDoubles(p, e, room)
	case Fourier:
		return newWaves(p, e, room)
	}
	return nil, errors.New("this kind is not known; use ones, columns, pairs or fourier")
}

// errRoom says that a part is larger than a release may be.
func errRoom(numbers, room int) error {
	return fmt.Errorf("%d numbers, where %d are left; use fewer bins or a smaller count", numbers, max(0, room))
}

// Count is the numbers of a vector.
func (f *Features) Count() int { return f.count }

// Classes is the number of classes.
func (f *Features) Classes() int { return f.classes }

// Norm bounds the L2 norm of the vector of any record, up to the rounding of float32.
//
// Parts have numbers of their own, so squares of their norms add up, and each part's norm
// is at most its weight:
//
//   - Ones: it is the weight.
//   - Columns: a record is in one cell, or between two knots with shares a and 1-a, of
//     which the squares add up to at most (a + 1-a)^2 = 1. Each of m columns is scaled to
//     weight/sqrt(m).
//   - Pairs: a table of products has the product of the two columns' norms, at most 1.
//     Each of m pairs is scaled to weight/sqrt(m).
//   - Fourier: sine and cosine of each of m waves are a point on a circle, or on a chord
//     of it (they are interpolated in a table), scaled to weight/sqrt(m).
//
// Nothing is assumed of a record but that its features are finite: of several ones in a
// category the first largest counts, numbers beyond [0, 1] count as its ends.
func (f *Features) Norm() float64 { return f.norm }

// chunk is how many records are worked on at a time.
const chunk = 256

// Each calls visit for the vector of each of n records x, shape [n, Width]: values at
// places of [0, Count), each place at most once, the others are 0. Both slices are valid
// until visit returns.
func (f *Features) Each(x []float32, n int, visit func(i int, at []int32, values []float32)) {
	at, values := make([][]int32, chunk), make([][]float32, chunk)
	for lo := 0; lo < n; lo += chunk {
		m := min(chunk, n-lo)
		for i := range m {
			at[i], values[i] = at[i][:0], values[i][:0]
		}
		f.visit(x[lo*f.width:(lo+m)*f.width], m, func(i, place int, value float32) {
			at[i], values[i] = append(at[i], int32(place)), append(values[i], value)
		})
		for i := range m {
			visit(lo+i, at[i], values[i])
		}
	}
}

// visit goes over the numbers of n records that are not 0.
func (f *Features) visit(x []float32, n int, add func(i, place int, value float32)) {
	first := 0
	for _, p := range f.parts {
		p.each(x, n, func(i, at int, value float32) {
			if value != 0 {
				add(i, first+at, value)
			}
		})
		first += p.count()
	}
}

// Sum adds the vector of each record to its class in dst, shape [classes, Count].
func (f *Features) Sum(dst []float64, x []float32, classes []int) {
	for lo := 0; lo < len(classes); lo += chunk {
		m := min(chunk, len(classes)-lo)
		f.visit(x[lo*f.width:(lo+m)*f.width], m, func(i, place int, value float32) {
			dst[classes[lo+i]*f.count+place] += float64(value)
		})
	}
}

// Slope writes to dx, shape [n, Width], the gradient by the records x of the sum over them
// of weights, shape [classes, Count], times their vectors. That of a choice is what choosing
// it changes, with everything else of the record as it is: the number to minimize if it
// is chosen, up to a constant for all choices of a column; see nn.Heads. Where a flag says
// that a number is empty, the number may be what it would be if it were not: it counts for
// the flag alone.
func (f *Features) Slope(dx, weights, x []float32, classes []int) {
	clear(dx)
	for lo := 0; lo < len(classes); lo += chunk {
		m, first := min(chunk, len(classes)-lo), 0
		for _, p := range f.parts {
			p.slope(dx[lo*f.width:(lo+m)*f.width], x[lo*f.width:(lo+m)*f.width], m, func(i int) []float32 {
				from := classes[lo+i]*f.count + first
				return weights[from : from+p.count()]
			})
			first += p.count()
		}
	}
}

// ones is the part of one number.
type ones float32

func (ones) count() int { return 1 }

func (o ones) each(_ []float32, n int, add func(i, at int, value float32)) {
	for i := range n {
		add(i, 0, float32(o))
	}
}

func (ones) slope(_, _ []float32, _ int, _ func(i int) []float32) {}
