package teachers

import (
	"slices"
	"sync"

	"github.com/conclave-dp/conclave/internal/nn/ensemble"
	"github.com/conclave-dp/conclave/internal/nn/scaling"
	"github.com/conclave-dp/conclave/internal/question"
)

// memory is a node's storage for the questions to its teachers.
type memory struct {
	// run and current belong to the run that was answered last.
	run     string
	current *runState
	// cosines holds the examples as coefficients, once they were asked for.
	cosines *cosines
}

// standardize returns views of the site's own records in the units of a round.
func standardize(s *question.Site, units *scaling.Scaler) []ensemble.Examples {
	seen := make([]ensemble.Examples, len(s.Examples))
	for t := range seen {
		seen[t].View = standardized{s.Examples[t].Seen(s.Features), units, s.Features}
	}
	return seen
}

// standardized is a view of records in the units of a round.
type standardized struct {
	of       ensemble.View
	units    *scaling.Scaler
	features int
}

func (v standardized) Len(class int) int { return v.of.Len(class) }

func (v standardized) Append(x []float32, class, from, to int) []float32 {
	w := v.units.Width()
	each(v.of, v.features, class, from, to, func(row []float32) {
		x = slices.Grow(x, w)[:len(x)+w]
		v.units.Apply(x[len(x)-w:], row, class)
	})
	return x
}

// rooms are buffers for records before they are converted.
var rooms = sync.Pool{New: func() any { return new([]float32) }}

// each passes some records of a class of a view to do, one after another.
func each(of ensemble.View, features, class, from, to int, do func(row []float32)) {
	room := rooms.Get().(*[]float32)
	defer rooms.Put(room)
	*room = of.Append((*room)[:0], class, from, to)
	for at := 0; at < len(*room); at += features {
		do((*room)[at : at+features])
	}
}

// withClass appends its class to each record, for networks that take it as an input and treat all records as one
// class.
func withClass(r records, features int) records {
	out := records{x: make([]float32, 0, len(r.classes)*(features+1)), classes: make([]int, len(r.classes))}
	for i, c := range r.classes {
		out.x = append(append(out.x, r.x[i*features:(i+1)*features]...), float32(c))
	}
	return out
}

// told returns views of examples with their classes included.
func told(examples []ensemble.Examples, features, classes int) []ensemble.Examples {
	seen := make([]ensemble.Examples, len(examples))
	for t := range seen {
		seen[t].View = withClasses{examples[t].Seen(features), features, classes}
	}
	return seen
}

// withClasses is a view of the records of all classes as one class, each followed by its class.
type withClasses struct {
	of                ensemble.View
	features, classes int
}

func (v withClasses) Len(int) (n int) {
	for c := range v.classes {
		n += v.of.Len(c)
	}
	return n
}

func (v withClasses) Append(x []float32, _, from, to int) []float32 {
	before := 0
	for c := range v.classes {
		n := v.of.Len(c)
		if first, end := max(from-before, 0), min(to-before, n); first < end {
			each(v.of, v.features, c, first, end, func(row []float32) { x = append(append(x, row...), float32(c)) })
		}
		before += n
	}
	return x
}
