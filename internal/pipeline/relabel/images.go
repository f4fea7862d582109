package relabel

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/strokes"
)

// mostLooked is the number of drawn rows from which directions, or the scaling of columns, are computed.
const mostLooked = 10_000

// images learns the rule for images: it asks for one sum, and solves for the rule.
func images(ctx context.Context, of *Options, so pipeline.Source, s *pipeline.Session, sigma float64) (rule, error) {
	s.Watch("label round", 0, 1)
	looked, _, err := so.Draw(ctx, mostLooked)
	if err != nil {
		return nil, err
	}
	mean, matrix, err := varied(strokes.Of(*s.Schema.Image, looked.X), strokes.Count(*s.Schema.Image),
		of.Directions)
	if err != nil {
		return nil, fmt.Errorf("%w: relabel: %w", pipeline.ErrStage, err)
	}
	d, err := strokes.NewDirections(s.Schema.Image, s.Classes, mean, matrix)
	if err != nil {
		return nil, fmt.Errorf("%w: relabel: %w", pipeline.ErrStage, err)
	}
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
	solved, err := solve(products, classes, d.Width(), ridge*d.Spread(sigma*cmp.Or(s.Surplus, 1)))
	if err != nil {
		return nil, fmt.Errorf("%w: relabel: %w", pipeline.ErrStage, err)
	}
	s.Watch("label round", 1, 1)
	return &linear{d, solved, s.Classes}, nil
}

// linear gives an image the class with the highest score: a linear function of its directions.
type linear struct {
	d       *strokes.Directions
	weights []float32 // [Width, classes]
	classes int
}

func (l *linear) label(r *pipeline.Rows, _ *rand.Rand) (changed int) {
	const chunk = 512
	v, w, classes, width := l.d.Vectors(), l.d.Width(), l.classes, len(r.X)/max(1, len(r.Classes))
	scores := make([]float32, classes)
	for lo := 0; lo < len(r.Classes); lo += chunk {
		hi := min(lo+chunk, len(r.Classes))
		all := v.Of(r.X[lo*width:hi*width], hi-lo)
		for i := lo; i < hi; i++ {
			clear(scores)
			for j, z := range all[(i-lo)*w : (i-lo+1)*w] {
				for c, b := range l.weights[j*classes : (j+1)*classes] {
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
