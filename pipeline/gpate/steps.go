package gpate

import (
	"fmt"
	"math"

	"github.com/conclave-dp/conclave/pipeline"
	"github.com/conclave-dp/conclave/projection"
)

// projection returns the directions of a round; nil where gradients are given as they
// are.
func (t *Trainer) projection(q *pipeline.GradientQuestion) (*projection.Projection, error) {
	if t.opts.Answers == Sum && t.opts.Directions == q.Width {
		return nil, nil
	}
	return projection.New(projection.Spec{
		Features: q.Width, Directions: t.opts.Directions, Clip: t.opts.Clip, Bins: t.opts.Bins,
	}, q.Seed)
}

// steps returns the released steps of the records, shape [records, width], and how many
// numbers were answered. They are relative: about 1 in size where all teachers agree,
// 0 where nothing was answered.
func (t *Trainer) steps(q *pipeline.GradientQuestion, a *pipeline.GradientAnswer) (steps []float32, answered int, err error) {
	p, err := t.projection(q)
	if err != nil {
		return nil, 0, err
	}
	n := len(q.Classes)
	count := n * t.opts.Directions
	values := make([]float32, count)
	switch {
	case t.opts.Answers == Sum:
		if len(a.Sum) != count {
			return nil, 0, fmt.Errorf("gpate: a sum of %d numbers for %d", len(a.Sum), count)
		}
		// A vector of length 1 has entries of this size.
		scale := float32(math.Sqrt(float64(count)))
		for i, v := range a.Sum {
			values[i] = scale * v
		}
		answered = count
	case a.Teachers < 1 || len(a.Winners) != count || (t.opts.Answers == Histogram && len(a.Histogram) != count*t.opts.Bins):
		return nil, 0, fmt.Errorf("gpate: %d winners and %d counts of %d votes", len(a.Winners), len(a.Histogram), count)
	default:
		for i, bin := range a.Winners {
			if bin < 0 {
				continue
			}
			if bin >= t.opts.Bins {
				return nil, 0, fmt.Errorf("gpate: bin %d of %d won", bin, t.opts.Bins)
			}
			answered++
			v := p.Midpoint(bin)
			if t.opts.Answers == Histogram {
				v = p.Mean(a.Histogram[i*t.opts.Bins:(i+1)*t.opts.Bins], a.Teachers)
			}
			values[i] = v / float32(t.opts.Clip)
		}
	}
	for i, v := range values {
		if v-v != 0 {
			return nil, 0, fmt.Errorf("gpate: number %d of the release is %v, not a number", i, v)
		}
	}
	if p == nil {
		return values, answered, nil
	}
	steps = make([]float32, n*q.Width)
	p.Back(steps, values, n)
	return steps, answered, nil
}
