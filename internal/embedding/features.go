package embedding

import (
	"errors"
	"fmt"
	"math"

	"github.com/conclave-dp/conclave/partition/encode"
)

// Features computes the vectors. It is safe for concurrent use.
type Features struct {
	width, classes, count int
	norm                  float64
	parts                 []block
	spec                  []Part // of parts
}

// block is a part with its layout. Its numbers are [0, count()).
type block interface {
	count() int
	// groups returns the sizes of the groups of numbers: a column, a pair of columns, or all waves.
	groups() []int
	pass() pass
}

type pass interface {
	// take sets n records x; they must not change until the next take.
	take(x []float32, n int)
	// each appends the numbers of record i and their indexes, counted from first: each index at most once.
	each(i int, first int32, at []int32, values []float32) ([]int32, []float32)
	// sum adds the numbers of record i to dst.
	sum(i int, dst []float64)
	// slope adds the gradient with respect to the records to dx, shape [n, width], given the gradient with respect
	// to the vectors: weights(i) is that of record i, with count() numbers.
	slope(dx []float32, weights func(i int) []float32)
}

// New lays out the vectors of records of e. Sums are kept separately for each of the classes; classes is 1 without
// any.
func New(e *encode.Encoder, classes int, parts []Part) (*Features, error) {
	if e.Width() < 1 {
		return nil, errors.New("embedding: records have no features; the schema needs a column besides its label")
	}
	if classes < 1 || classes > MaxSize {
		return nil, fmt.Errorf("embedding: %d classes; use 1 to %d", classes, MaxSize)
	}
	if len(parts) == 0 {
		return nil, errors.New("embedding: no parts; give at least one")
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
		f.parts, f.spec = append(f.parts, b), append(f.spec, p)
		f.count += b.count()
		squares += p.Weight * p.Weight
		if f.count > MaxSize/classes {
			return nil, fmt.Errorf("embedding: more than %d numbers for %d classes up to part %d (%s); use fewer",
				MaxSize, classes, i, p.Kind)
		}
	}
	if len(f.parts) == 0 {
		return nil, errors.New("embedding: the parts are empty, because a table of one column has no pairs")
	}
	f.norm = math.Sqrt(squares)
	return f, nil
}

// lay makes the block of a checked part, with at most room numbers; nil if it has none.
func (p Part) lay(e *encode.Encoder, room int) (block, error) {
	switch p.Kind {
	case Ones:
		return ones(p.Weight), nil
	case Columns:
		return newSingles(p, e, room)
	case Pairs:
		return newDoubles(p, e, room)
	case Fourier:
		return newWaves(p, e, room)
	case Patches:
		return newPatches(p, e, room)
	}
	return nil, errors.New("unknown kind; use ones, columns, pairs, fourier or patches")
}

// errRoom says that a part is larger than a release may be.
func errRoom(numbers, room int) error {
	return fmt.Errorf("%d numbers, but only %d are left; use fewer", numbers, max(0, room))
}

// Count is the length of a vector.
func (f *Features) Count() int { return f.count }

// Classes is the number of classes.
func (f *Features) Classes() int { return f.classes }

// Span is the range in a vector of numbers that belong together: a column, a pair of columns, or all waves of a
// part.
type Span struct {
	Part
	First, Count int
}

// Spans lists the ranges of a vector in order.
func (f *Features) Spans() []Span {
	var spans []Span
	first := 0
	for i, b := range f.parts {
		for _, n := range b.groups() {
			spans = append(spans, Span{Part: f.spec[i], First: first, Count: n})
			first += n
		}
	}
	return spans
}

// Norm bounds the L2 norm of the vector of any record, up to the rounding of float32.
//
// Parts have separate numbers, so the squares of their norms add up, and each part's norm is at most its weight:
//
//   - Ones: it is the weight.
//   - Columns: a record is in one cell, or between two knots with shares a and 1-a, whose squares add up to at
//     most (a + 1-a)^2 = 1. Each of m columns is scaled to weight/sqrt(m).
//   - Pairs: a table of products has the product of the two columns' norms, at most 1.
//     Each of m pairs is scaled to weight/sqrt(m).
//   - Fourier: sine and cosine of each of m waves are a point on a circle, up to what
//     float32 rounds of the angle, scaled to weight/sqrt(m).
//   - Patches: in each of c cells, each of m waves has the mean of such points, which is not longer than 1, scaled to
//     weight/sqrt(c m).
//
// Nodes clip to it in integers, so no rounding affects a sum. Nothing is assumed about a record. If a category has
// several ones, which no encoder makes, the first largest counts. Numbers outside [0, 1] are clamped, and NaN
// counts as 0.
func (f *Features) Norm() float64 { return f.norm }
