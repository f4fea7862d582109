package gpate

import (
	"fmt"
	"math"

	"github.com/conclave-dp/conclave/internal/nn/scaling"
	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/projection"
)

// projection returns the directions of a round; nil if gradients are not projected.
func (t *Trainer) projection(q *pipeline.TeacherQuestion) (*projection.Projection, error) {
	if !t.opts.projects(t.seen) {
		return nil, nil
	}
	return projection.New(t.opts.projected(t.seen), q.Seed)
}

// units returns the units of a round's training records. Teachers see standard features in these units.
func (t *Trainer) units(q *pipeline.TeacherQuestion) (*scaling.Scaler, error) {
	return scaling.New(q.Training, q.TrainingClasses, q.Width, t.Classes, t.numbers)
}

// isNumber marks the features that are numbers.
func (t *Trainer) isNumber(width int) []bool {
	number := make([]bool, width)
	for _, j := range t.numbers {
		number[j] = true
	}
	return number
}

// released holds the released steps of a round, by the features that teachers see.
type released struct {
	// steps has shape [records, seen]. A step is about 1 in size if all teachers agree, and 0 without an
	// answer.
	steps []float32
	// noise is the standard deviation of the noise of a step, 0 if it is unknown.
	noise float64
	// answered is the number of answered questions.
	answered int
}

func (t *Trainer) steps(q *pipeline.TeacherQuestion, a *pipeline.GradientAnswer) (*released, error) {
	p, err := t.projection(q)
	if err != nil {
		return nil, err
	}
	n := len(q.Classes)
	values, answered, noise, err := t.values(p, n*t.opts.Directions, a)
	if err != nil {
		return nil, err
	}
	for i, v := range values {
		if v-v != 0 {
			return nil, fmt.Errorf("gpate: number %d of the release is %v, not a number", i, v)
		}
	}
	r := &released{steps: values, noise: noise, answered: answered}
	if p != nil {
		// A row of the projection has length about 1, so the noise keeps its size.
		r.steps = make([]float32, n*t.seen)
		p.Back(r.steps, values, n)
	}
	return r, nil
}

// values returns the released numbers in relative size, how many of them were answered, and the standard deviation
// of their noise, 0 if it is unknown.
func (t *Trainer) values(p *projection.Projection, count int, a *pipeline.GradientAnswer) (values []float32,
	answered int, noise float64, err error) {
	values = make([]float32, count)
	if t.opts.Answers == Sum {
		if len(a.Sum) != count {
			return nil, 0, 0, fmt.Errorf("gpate: a sum of %d numbers for %d", len(a.Sum), count)
		}
		scale := math.Sqrt(float64(count)) // the entries of a vector of length 1 are about 1/scale
		for i, v := range a.Sum {
			values[i] = float32(scale) * v
		}
		return values, count, scale * a.Noise, nil
	}
	bins := t.opts.Bins
	if a.Teachers < 1 || len(a.Winners) != count || (t.opts.Answers == Histogram && len(a.Histogram) != count*bins) {
		return nil, 0, 0, fmt.Errorf("gpate: %d winners and %d counts of %d votes", len(a.Winners), len(a.Histogram),
			count)
	}
	for i, bin := range a.Winners {
		if bin < 0 {
			continue
		}
		if bin >= bins {
			return nil, 0, 0, fmt.Errorf("gpate: bin %d of %d won", bin, bins)
		}
		answered++
		v := p.Midpoint(bin)
		if t.opts.Answers == Histogram {
			v = p.Mean(a.Histogram[i*bins:(i+1)*bins], a.Teachers)
		}
		values[i] = v / float32(t.opts.Clip)
	}
	if t.opts.Answers == Histogram && answered == count {
		var squares float64
		for bin := range bins {
			m := float64(p.Midpoint(bin)) / t.opts.Clip
			squares += m * m
		}
		noise = a.Noise * math.Sqrt(squares) / float64(a.Teachers)
	}
	return values, answered, noise, nil
}
