package pipeline

import (
	"math/rand/v2"

	"github.com/conclave-dp/conclave/internal/nn"
	"github.com/conclave-dp/conclave/internal/nn/optimizer"
	"github.com/conclave-dp/conclave/internal/nn/safetensors"
	"github.com/conclave-dp/conclave/internal/nn/scaling"
	"github.com/conclave-dp/conclave/internal/nn/tensor"
)

// Learner is a generator with its optimizer and its moving average.
type Learner struct {
	Generator *Generator
	adam      *optimizer.Adam
	average   *nn.Average
}

// NewLearner makes a learner with this step size for Adam. Until [Learner.KeepAverage] its average is the
// generator itself.
func NewLearner(g *Generator, rate float64) *Learner {
	return &Learner{Generator: g, adam: optimizer.NewAdam(g.Net.Params(), rate)}
}

// KeepAverage starts the moving average at the present generator.
func (l *Learner) KeepAverage(decay float64) { l.average = nn.NewAverage(l.Generator.Net, decay) }

// Step moves the generator against grad, the gradient with respect to the records x of its last Sample. It
// overwrites grad.
func (l *Learner) Step(grad, x []float32) {
	l.Generator.Backward(grad, x)
	l.adam.Step()
	if l.average != nil {
		l.average.Update(l.Generator.Net)
	}
}

// Rate is the size of steps.
func (l *Learner) Rate() float64 { return l.adam.Rate }

// SetRate sets the size of further steps.
func (l *Learner) SetRate(rate float64) { l.adam.Rate = rate }

// Averaged returns the moving average.
func (l *Learner) Averaged() *Generator {
	if l.average == nil {
		return l.Generator
	}
	return l.Generator.With(l.average.Model())
}

// Diverged tells whether a weight is not a number.
func (l *Learner) Diverged() bool {
	for _, p := range l.Generator.Net.Params() {
		for _, v := range p.Value {
			if v != v {
				return true
			}
		}
	}
	return false
}

// Tensors adds the learner's state to a checkpoint, and Restore reads it back. Steps and SetSteps belong to the
// same state.
func (l *Learner) Tensors(set *safetensors.Set) {
	for _, part := range l.parts() {
		set.Add(part.prefix, part.params)
	}
}

// Restore takes the state from a checkpoint's tensors.
func (l *Learner) Restore(set *safetensors.Set) error {
	for _, part := range l.parts() {
		if err := set.CopyTo(part.prefix, part.params); err != nil {
			return err
		}
	}
	return nil
}

type learnerPart struct {
	prefix string
	params []tensor.Param
}

func (l *Learner) parts() []learnerPart {
	parts := []learnerPart{{"generator.", l.Generator.Net.Params()}, {"generator.adam.", l.adam.State()}}
	if l.average != nil {
		parts = append(parts, learnerPart{"average.", l.average.Model().Params()})
	}
	return parts
}

// Steps returns the steps of optimizer and average.
func (l *Learner) Steps() [2]int {
	if l.average == nil {
		return [2]int{l.adam.Steps()}
	}
	return [2]int{l.adam.Steps(), l.average.Steps()}
}

// SetSteps restores the steps.
func (l *Learner) SetSteps(steps [2]int) {
	l.adam.SetSteps(steps[0])
	if l.average != nil {
		l.average.SetSteps(steps[1])
	}
}

// Balanced returns the classes of n records, equally many of each.
func Balanced(n, classes int) []int {
	c := make([]int, n)
	for i := range c {
		c[i] = i % classes
	}
	return c
}

// Units returns the units of the present generator, with the squares of the given features.
func (l *Learner) Units(classes int, numbers []int, rng *rand.Rand) (*scaling.Scaler, error) {
	const sample = 2048
	of := Balanced(sample, classes)
	x := make([]float32, sample*l.Generator.Width())
	l.Generator.Sample(x, of, rng)
	return scaling.New(x, of, l.Generator.Width(), classes, numbers)
}
