package teacher

import (
	"github.com/conclave-dp/conclave/nn"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// taught are a run's teachers after a round's training, with the records that they
// are asked about, as their networks see them.
type taught struct {
	node     *Node
	spec     teacherSpec
	ensemble *nn.Ensemble
	queries  records
	// units are those of standard features, nil of plain ones.
	units *nn.Standard
}

// train lets the teachers learn from a round's generated records and the node's own.
func (n *Node) train(s *runState, a *asked) (*taught, error) {
	t := &taught{node: n, spec: a.spec, ensemble: s.ensemble, queries: a.queries}
	training, examples := a.training, n.examples
	if a.standard {
		var err error
		// Units that follow from the round's generated records are not private.
		if t.units, err = nn.NewStandard(training.x, training.classes, n.features, n.classes, n.numbers); err != nil {
			return nil, err
		}
		training.x = t.units.All(training.x, training.classes)
		t.queries.x = t.units.All(t.queries.x, t.queries.classes)
		examples = n.standardize(t.units)
	}
	if a.spec.Shared {
		training, t.queries = withClass(training, a.spec.Features), withClass(t.queries, a.spec.Features)
		examples = n.shared(examples, a.spec.Features)
	}
	if len(training.classes) > 0 && a.vote != conclavev1.TeacherSpec_VOTE_COIN {
		if err := s.ensemble.Train(examples, training.x, training.classes, a.steps, a.batch); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// votes returns the teachers' packed votes of real or fake.
func (t *taught) votes(a *asked, round uint64) ([]byte, error) {
	teachers, queries := t.spec.Models, len(t.queries.classes)
	scores := make([]float32, teachers*queries)
	if err := t.ensemble.Score(scores, t.queries.x, t.queries.classes); err != nil {
		return nil, err
	}
	votes := castVotes(a.vote, a.spec.Seed, round, scores, a.queries.classes)
	return pack(votes, teachers, queries, answerClasses), nil
}

// withClass appends to each record its class, for networks that are told it; to
// them all records are of one class.
func withClass(r records, features int) records {
	out := records{x: make([]float32, 0, len(r.classes)*(features+1)), classes: make([]int, len(r.classes))}
	for i, c := range r.classes {
		out.x = append(append(out.x, r.x[i*features:(i+1)*features]...), float32(c))
	}
	return out
}

// shared returns the teachers' examples with the classes in them. Those of plain
// features stay the same over rounds and are kept.
func (n *Node) shared(examples []nn.Examples, features int) []nn.Examples {
	plain := features == n.features
	if plain && n.told != nil {
		return n.told
	}
	told := make([]nn.Examples, len(examples))
	for t, e := range examples {
		var all []float32
		for c, x := range e.ByClass {
			for i := 0; i < len(x); i += features {
				all = append(append(all, x[i:i+features]...), float32(c))
			}
		}
		told[t].ByClass = [][]float32{all}
	}
	if plain {
		n.told = told
	}
	return told
}
