package relabel

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/strokes"
)

// mostLooked is the number of generated images from which directions are computed.
const mostLooked = 10_000

// apply asks for the sum, makes a rule from it, and returns rows with the rule's labels.
func apply(ctx context.Context, of pipeline.Options, so pipeline.Source, s *pipeline.Session) (pipeline.Source, error) {
	planned, ok := s.Plan.Of(name)
	if !ok {
		return nil, errors.New("relabel: the run's plan does not pay for the labels; start a new run")
	}
	s.Watch("labels", 0, 1)
	looked, _, err := so.Draw(ctx, mostLooked)
	if err != nil {
		return nil, err
	}
	mean, matrix, err := varied(strokes.Of(*s.Schema.Image, looked.X), strokes.Count(*s.Schema.Image),
		of.(*Options).Directions)
	if err != nil {
		return nil, fmt.Errorf("%w: relabel: %w", pipeline.ErrStage, err)
	}
	d, err := strokes.NewDirections(s.Schema.Image, s.Classes, mean, matrix)
	if err != nil {
		return nil, fmt.Errorf("%w: relabel: %w", pipeline.ErrStage, err)
	}
	sigma := planned.Mechanism.Sigma
	bound := boundOf(sigma)
	release, err := s.Ask.Ask(ctx, name, d.Round(uint64(len(s.Learned.Receipts)), mean, bound, s.Ask.Baseline()))
	if err != nil {
		return nil, err
	}
	products, classes, err := d.Sums(release.GetSum().GetValues(), bound)
	if err != nil {
		return nil, fmt.Errorf("relabel: %w", err)
	}
	s.Learned.Took(pipeline.PaidBy(release))
	rule, err := solve(products, classes, d.Width(), ridge*d.Spread(sigma*cmp.Or(s.Surplus, 1)))
	if err != nil {
		return nil, fmt.Errorf("%w: relabel: %w", pipeline.ErrStage, err)
	}
	s.Watch("labels", 1, 1)
	return &labelled{so, s, d, rule}, nil
}

// labelled are rows of another source with the labels of a rule.
type labelled struct {
	so   pipeline.Source
	s    *pipeline.Session
	d    *strokes.Directions
	rule []float32 // [Width, classes]
}

// label gives rows their new labels, and returns the number of changed ones.
func (l *labelled) label(r *pipeline.Rows) (changed int) {
	const chunk = 512
	v, w, classes, width := l.d.Vectors(), l.d.Width(), l.s.Classes, l.s.Encoder.Width()
	scores := make([]float32, classes)
	for lo := 0; lo < len(r.Classes); lo += chunk {
		hi := min(lo+chunk, len(r.Classes))
		all := v.Of(r.X[lo*width:hi*width], hi-lo)
		for i := lo; i < hi; i++ {
			clear(scores)
			for j, z := range all[(i-lo)*w : (i-lo+1)*w] {
				for c, b := range l.rule[j*classes : (j+1)*classes] {
					scores[c] += z * b
				}
			}
			best := 0
			for c, score := range scores {
				if score > scores[best] {
					best = c
				}
			}
			if best != r.Classes[i] {
				r.Classes[i] = best
				changed++
			}
		}
	}
	return changed
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
	return rows, fmt.Sprintf("%s%d of %d images got another label than the generator's.", note, l.label(&rows), n), nil
}

// Class draws images of all classes, and takes those that the rule assigns to this one.
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
				l.label(&rows)
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
		return kept, fmt.Errorf("%w: relabel: %d of %d images of class %d of %d were found among %d; raise "+
			"privacy.epsilon, or leave the stage out", pipeline.ErrStage, len(kept.Classes), n, class+1, l.s.Classes,
			batch*mostBatches)
	}
}
