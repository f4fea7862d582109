package teachers

import (
	"github.com/conclave-dp/conclave/internal/nn/ensemble"
	"github.com/conclave-dp/conclave/internal/nn/scaling"
	"github.com/conclave-dp/conclave/internal/question"
)

// memory is a node's storage for the questions to its teachers.
type memory struct {
	// run and current are the run that was answered last.
	run     string
	current *runState
	// standard is the space for the examples in units of a round.
	standard []ensemble.Examples
	// cosines are the examples as coefficients, once they were asked for.
	cosines *cosines
	// told are the examples with their classes included; they are made when first needed.
	told   []ensemble.Examples
	toldOf seen
}

// standardize expresses the site's own records in the units of a round.
func standardize(s *question.Site, units *scaling.Scaler) []ensemble.Examples {
	m, w := question.Memory[memory](s.Public), units.Width()
	if m.standard == nil {
		m.standard = make([]ensemble.Examples, len(s.Examples))
	}
	for t, e := range s.Examples {
		if m.standard[t].ByClass == nil {
			m.standard[t].ByClass = make([][]float32, s.Classes)
		}
		for c, x := range e.ByClass {
			rows := len(x) / s.Features
			if m.standard[t].ByClass[c] == nil {
				m.standard[t].ByClass[c] = make([]float32, rows*w)
			}
			for i := range rows {
				units.Apply(m.standard[t].ByClass[c][i*w:(i+1)*w], x[i*s.Features:(i+1)*s.Features], c)
			}
		}
	}
	return m.standard
}

// withClass appends its class to each record, for networks that are told it and treat all records as one class.
func withClass(r records, features int) records {
	out := records{x: make([]float32, 0, len(r.classes)*(features+1)), classes: make([]int, len(r.classes))}
	for i, c := range r.classes {
		out.x = append(append(out.x, r.x[i*features:(i+1)*features]...), float32(c))
	}
	return out
}

// seen is the teachers' view of a record: the number of features, and whether they are cosines.
type seen struct{ features, cosines int }

// shared returns the examples with the classes in them. Those that are the
// same in every round are kept.
func (m *memory) shared(examples []ensemble.Examples, of seen, same bool) []ensemble.Examples {
	if same && m.told != nil && m.toldOf == of {
		return m.told
	}
	features := of.features
	told := make([]ensemble.Examples, len(examples))
	for t, e := range examples {
		var all []float32
		for c, x := range e.ByClass {
			for i := 0; i < len(x); i += features {
				all = append(append(all, x[i:i+features]...), float32(c))
			}
		}
		told[t].ByClass = [][]float32{all}
	}
	if same {
		m.told, m.toldOf = told, of
	}
	return told
}
