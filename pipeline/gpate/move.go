package gpate

import (
	"math"

	"github.com/conclave-dp/conclave/nn"
	"github.com/conclave-dp/conclave/pipeline"
)

// move fits the generator to its records of the round, moved by their steps: the mean
// squared error of the paper. Of choices it is the loss of choosing a value, which falls
// along the step.
func (t *Trainer) move(q *pipeline.GradientQuestion, steps []float32) error {
	change, err := t.changes(q, steps)
	if err != nil {
		return err
	}
	g, n := t.learner.Generator, float32(len(q.Classes))
	number := make([]bool, q.Width)
	for _, j := range t.numbers {
		number[j] = true
	}
	target := make([]float32, len(change))
	for i, c := range change {
		target[i] = min(1, max(0, q.Records[i]+c))
	}
	x, grad := make([]float32, len(change)), make([]float32, len(change))
	for range t.opts.Student.GeneratorSteps {
		g.Sample(x, q.Classes, t.draws()) // the records that the same noise makes now
		for i := range grad {
			if number[i%q.Width] {
				grad[i] = (x[i] - target[i]) / n
			} else {
				grad[i] = -change[i] / n
			}
		}
		t.learner.Step(grad, x)
	}
	return nil
}

// changes turns steps by what teachers see into changes of the records' features, of the
// length of this round's step in the mean.
func (t *Trainer) changes(q *pipeline.GradientQuestion, steps []float32) ([]float32, error) {
	n, change := len(q.Classes), steps
	switch {
	case t.basis != nil:
		change = make([]float32, n*q.Width)
		t.basis.Back(change, steps, n)
	case t.opts.Teacher.Features == "standard":
		units, err := nn.NewStandard(q.Training, q.TrainingClasses, q.Width, t.classes, t.numbers)
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
