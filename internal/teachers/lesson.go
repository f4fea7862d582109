package teachers

import (
	"github.com/conclave-dp/conclave/internal/nn/ensemble"
	"github.com/conclave-dp/conclave/internal/nn/scaling"
	"github.com/conclave-dp/conclave/internal/question"
)

// lesson is a round for a run's teachers: what they train on and what they are asked about, as their networks see
// it.
type lesson struct {
	site     *question.Site
	asked    *asked
	ensemble *ensemble.Ensemble
	examples []ensemble.Examples
	training records
	queries  records
	// units are the units of standard features, nil for other features.
	units *scaling.Scaler
}

func prepare(s *question.Site, e *ensemble.Ensemble, a *asked) (*lesson, error) {
	if err := s.Divide(); err != nil {
		return nil, err
	}
	l := &lesson{site: s, asked: a, ensemble: e, examples: s.Examples, training: a.training, queries: a.queries}
	if e != nil && s.Asked != nil {
		e.Until(s.Asked.Done())
	}
	switch {
	case a.standard:
		var err error
		// The units follow from the round's generated records, so they are not private.
		l.units, err = scaling.New(a.training.x, a.training.classes, s.Features, s.Classes, s.Numbers)
		if err != nil {
			return nil, err
		}
		l.training.x = l.units.All(a.training.x, a.training.classes)
		l.queries.x = l.units.All(a.queries.x, a.queries.classes)
		l.examples = standardize(s, l.units)
	case a.spec.Cosines > 0:
		c, err := asCosines(s, a.spec.Cosines)
		if err != nil {
			return nil, err
		}
		l.training.x, l.queries.x, l.examples = c.of(a.training.x), c.of(a.queries.x), c.examples
	}
	if a.spec.Shared {
		l.training, l.queries = withClass(l.training, a.spec.Features), withClass(l.queries, a.spec.Features)
		l.examples = told(l.examples, a.spec.Features, s.Classes)
	}
	return l, nil
}

// trains reports whether there is something to learn.
func (l *lesson) trains() bool {
	return len(l.training.classes) > 0 && !l.asked.coin()
}

// train trains the teachers.
func (l *lesson) train() error {
	if !l.trains() {
		return nil
	}
	return l.ensemble.Train(l.examples, l.training.x, l.training.classes, l.asked.steps, l.asked.batch)
}

// gradients trains the teachers and calls visit with each one's gradients at the queries; see
// [nn.Ensemble.InputGradients].
func (l *lesson) gradients(visit func(teacher int, dx []float32)) error {
	if l.asked.spec.Energy {
		l.energyGradients(visit)
		return l.site.Wanted()
	}
	if !l.trains() && !l.asked.spec.Fresh {
		return l.ensemble.InputGradients(l.queries.x, l.queries.classes, nil, visit)
	}
	return l.ensemble.TrainGradients(l.examples, l.training.x, l.training.classes, l.asked.steps, l.asked.batch,
		l.queries.x, l.queries.classes, nil, visit)
}

// votes returns the teachers' votes of real or fake, shape [teachers, queries].
func (l *lesson) votes(round uint64) ([]uint8, error) {
	a := l.asked
	if err := l.train(); err != nil {
		return nil, err
	}
	teachers, queries := a.spec.Models, len(a.queries.classes)
	scores := make([]float32, teachers*queries)
	if err := l.ensemble.Score(scores, l.queries.x, l.queries.classes); err != nil {
		return nil, err
	}
	return castVotes(a.vote, a.spec.Seed, round, scores, a.queries.classes), nil
}
