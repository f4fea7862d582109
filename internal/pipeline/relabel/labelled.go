package relabel

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/conclave-dp/conclave/internal/pipeline"
)

// rule gives rows their new labels, and returns the number of changed ones. It was learned from releases.
type rule interface {
	label(r *pipeline.Rows, rng *rand.Rand) (changed int)
}

// apply learns a rule from releases, and returns rows with its labels.
func apply(ctx context.Context, of pipeline.Options, so pipeline.Source, s *pipeline.Session) (pipeline.Source, error) {
	planned, ok := s.Plan.Of(name)
	if !ok {
		return nil, errors.New("relabel: the run's plan does not pay for the labels; start a new run")
	}
	learn, what := images, "images"
	if s.Schema.Image == nil {
		learn, what = tables, "rows"
	}
	r, err := learn(ctx, of.(*Options), so, s, planned.Mechanism.Sigma)
	if err != nil {
		return nil, err
	}
	return &labelled{so, s, r, what}, nil
}

// labelled are rows of another source with the labels of a rule.
type labelled struct {
	so   pipeline.Source
	s    *pipeline.Session
	rule rule
	what string // "images" or "rows"
}

// Draw labels rows that the source draws.
func (l *labelled) Draw(ctx context.Context, n int) (pipeline.Rows, string, error) {
	rows, note, err := l.so.Draw(ctx, n)
	if err != nil {
		return rows, note, err
	}
	if note != "" {
		note += " "
	}
	changed := l.rule.label(&rows, rand.New(rand.NewPCG(l.s.Seed, 0x1abe1)))
	return rows, fmt.Sprintf("%sNew labels (stage relabel): %d of %d %s got another label than the generator's.", note,
		changed, n, l.what), nil
}

// Class draws rows of all classes, and takes those that the rule assigns to this one.
func (l *labelled) Class(class int, rng *rand.Rand) func(context.Context, int) (pipeline.Rows, error) {
	const batch, mostBatches = 1024, 1000
	draws := make([]func(context.Context, int) (pipeline.Rows, error), l.s.Classes)
	for c := range draws {
		draws[c] = l.so.Class(c, rng)
	}
	return func(ctx context.Context, n int) (kept pipeline.Rows, err error) {
		for range mostBatches {
			for c, share := range l.s.Counts(batch) {
				if share == 0 {
					continue
				}
				rows, err := draws[c](ctx, share)
				if err != nil {
					return kept, err
				}
				l.rule.label(&rows, rng)
				for i, label := range rows.Classes {
					if label == class {
						kept = kept.With(rows.Take([]int{i}, l.s.Encoder.Width()))
					}
				}
			}
			if len(kept.Classes) >= n {
				return kept.First(n, l.s.Encoder.Width()), nil
			}
		}
		return kept, fmt.Errorf("%w: relabel: %d of %d %s of class %d of %d were found among %d; raise "+
			"privacy.epsilon, or leave the stage out", pipeline.ErrStage, len(kept.Classes), n, l.what, class+1,
			l.s.Classes, batch*mostBatches)
	}
}
