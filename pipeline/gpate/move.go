package gpate

import "github.com/conclave-dp/conclave/pipeline"

// move fits the generator to its records of the round, moved by their steps: the mean
// squared error of the paper. Of choices it is the loss of choosing a value, which falls
// along the step.
func (t *Trainer) move(q *pipeline.GradientQuestion, steps []float32) {
	g, n := t.learner.Generator, float32(len(q.Classes))
	number := make([]bool, q.Width)
	for _, j := range t.numbers {
		number[j] = true
	}
	target := make([]float32, len(steps))
	for i, s := range steps {
		target[i] = min(1, max(0, q.Records[i]+float32(t.opts.Student.Step)*s))
	}
	x, grad := make([]float32, len(steps)), make([]float32, len(steps))
	for range t.opts.Student.GeneratorSteps {
		g.Sample(x, q.Classes, t.draws()) // the records that the same noise makes now
		for i := range grad {
			if number[i%q.Width] {
				grad[i] = (x[i] - target[i]) / n
			} else {
				grad[i] = -float32(t.opts.Student.Step) * steps[i] / n
			}
		}
		t.learner.Step(grad, x)
	}
}
