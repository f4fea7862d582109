package node

import (
	"github.com/conclave-dp/conclave/internal/nn"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// lesson is a round for a run's teachers: what they learn from and what they are asked
// about, as their networks see it.
type lesson struct {
	node     *Node
	asked    *asked
	ensemble *nn.Ensemble
	examples []nn.Examples
	training records
	queries  records
	// units are those of standard features, nil of others.
	units *nn.Standard
}

// prepare makes a round's lesson.
func (n *Node) prepare(s *runState, a *asked) (*lesson, error) {
	l := &lesson{node: n, asked: a, ensemble: s.ensemble, examples: n.examples, training: a.training, queries: a.queries}
	switch {
	case a.standard:
		var err error
		// Units that follow from the round's generated records are not private.
		if l.units, err = nn.NewStandard(a.training.x, a.training.classes, n.features, n.classes, n.numbers); err != nil {
			return nil, err
		}
		l.training.x, l.queries.x = l.units.All(a.training.x, a.training.classes), l.units.All(a.queries.x, a.queries.classes)
		l.examples = n.standardize(l.units)
	case a.spec.Cosines > 0:
		c, err := n.asCosines(a.spec.Cosines)
		if err != nil {
			return nil, err
		}
		l.training.x, l.queries.x, l.examples = c.of(a.training.x), c.of(a.queries.x), c.examples
	}
	if a.spec.Shared {
		l.training, l.queries = withClass(l.training, a.spec.Features), withClass(l.queries, a.spec.Features)
		l.examples = n.shared(l.examples, seen{a.spec.Features, a.spec.Cosines}, !a.standard)
	}
	return l, nil
}

// trains is whether there is something to learn.
func (l *lesson) trains() bool {
	return len(l.training.classes) > 0 && l.asked.vote != conclavev1.TeacherSpec_VOTE_COIN
}

// train lets the teachers learn.
func (l *lesson) train() error {
	if !l.trains() {
		return nil
	}
	return l.ensemble.Train(l.examples, l.training.x, l.training.classes, l.asked.steps, l.asked.batch)
}

// gradients lets the teachers learn and calls visit with every one's gradients at the
// queries; see [nn.Ensemble.InputGradients].
func (l *lesson) gradients(visit func(teacher int, dx []float32)) error {
	if l.asked.spec.Energy {
		l.energyGradients(visit)
		return nil
	}
	if !l.trains() && !l.asked.spec.Fresh {
		return l.ensemble.InputGradients(l.queries.x, l.queries.classes, nil, visit)
	}
	return l.ensemble.TrainGradients(l.examples, l.training.x, l.training.classes, l.asked.steps, l.asked.batch,
		l.queries.x, l.queries.classes, nil, visit)
}

// votes returns the teachers' packed votes of real or fake.
func (l *lesson) votes(round uint64) ([]byte, error) {
	a := l.asked
	if err := l.train(); err != nil {
		return nil, err
	}
	teachers, queries := a.spec.Models, len(a.queries.classes)
	scores := make([]float32, teachers*queries)
	if err := l.ensemble.Score(scores, l.queries.x, l.queries.classes); err != nil {
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

// seen is what teachers see of a record: so many numbers, and whether they are cosines.
type seen struct{ features, cosines int }

// shared returns the teachers' examples with the classes in them. Those that are the
// same in every round are kept.
func (n *Node) shared(examples []nn.Examples, of seen, same bool) []nn.Examples {
	if same && n.told != nil && n.toldOf == of {
		return n.told
	}
	features := of.features
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
	if same {
		n.told, n.toldOf = told, of
	}
	return told
}
