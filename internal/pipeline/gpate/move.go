package gpate

import (
	"context"
	"math"

	"github.com/conclave-dp/conclave/internal/pipeline"
)

// move fits the generator to the records that it made for the round, each moved by its step. The loss is the mean
// squared error of the paper. A choice has a loss for each of its values, which falls along the step.
func (t *Trainer) move(ctx context.Context, q *pipeline.TeacherQuestion, r *released) error {
	shrink(r.steps, t.seen, r.noise)
	change, err := t.changes(q, r.steps)
	if err != nil {
		return err
	}
	g, n := t.Learner.Generator, float32(len(q.Classes))
	number := t.isNumber(q.Width)
	target := make([]float32, len(change))
	for i, c := range change {
		target[i] = min(1, max(0, q.Records[i]+c))
	}
	x, grad := make([]float32, len(change)), make([]float32, len(change))
	for range t.opts.Student.GeneratorSteps {
		if err := ctx.Err(); err != nil {
			return err
		}
		g.Sample(x, q.Classes, t.draws()) // the records that the same random numbers give now
		for i := range grad {
			if number[i%q.Width] {
				grad[i] = (x[i] - target[i]) / n
			} else {
				grad[i] = -change[i] / n
			}
		}
		t.Learner.Step(grad, x)
		t.Hold()
	}
	return nil
}

// changes converts steps by what teachers see into changes of the records' features. Their mean length is the
// length of this round's step.
func (t *Trainer) changes(q *pipeline.TeacherQuestion, steps []float32) ([]float32, error) {
	n, change := len(q.Classes), steps
	switch {
	case t.basis != nil:
		change = make([]float32, n*q.Width)
		t.basis.Back(change, steps, n)
	case t.opts.Teacher.Features == "standard":
		units, err := t.units(q)
		if err != nil {
			return nil, err
		}
		change = make([]float32, n*q.Width)
		for i, c := range q.Classes {
			units.Change(change[i*q.Width:(i+1)*q.Width], steps[i*q.Width:(i+1)*q.Width], c)
		}
	}
	var squares float64
	for _, v := range change {
		squares += float64(v) * float64(v)
	}
	if squares == 0 {
		return change, nil
	}
	scale := float32(t.step() / math.Sqrt(squares/float64(n)))
	for i, v := range change {
		change[i] = scale * v
	}
	return change, nil
}

// shrink multiplies every feature of the steps by the share of its energy that is not noise (Wiener 1949): a
// feature of pure noise moves nothing.
func shrink(steps []float32, features int, noise float64) {
	if noise == 0 {
		return
	}
	n := len(steps) / features
	for j := range features {
		var energy float64
		for i := range n {
			v := float64(steps[i*features+j])
			energy += v * v / float64(n)
		}
		share := float32(math.Max(0, energy-noise*noise) / math.Max(energy, 1e-30))
		for i := range n {
			steps[i*features+j] *= share
		}
	}
}
