package embed

import (
	"math/rand/v2"

	"github.com/conclave-dp/conclave/embedding"
	"github.com/conclave-dp/conclave/pipeline"
)

// Matcher fits a generator to mean features by class.
type Matcher struct {
	features *embedding.Features
	classes  int
	// mean holds the released means, gain what a difference to each counts; shape [classes,
	// features].
	mean, gain []float32
	// made is the moving average of the generator's, memory its decay.
	made   []float32
	memory float32

	batch   []int
	x, dx   []float32
	sum     []float64
	weights []float32
}

func newMatcher(f *embedding.Features, mean, gain []float32, fit Fit, classes int) *Matcher {
	return &Matcher{
		features: f, classes: classes, mean: mean, gain: gain, made: make([]float32, len(mean)), memory: float32(fit.Memory),
		batch: pipeline.Balanced(fit.Batch, classes), sum: make([]float64, len(mean)), weights: make([]float32, len(mean)),
	}
}

// Step takes one step of the generator.
func (m *Matcher) Step(l *pipeline.Learner, rng *rand.Rand, first bool) {
	if n := len(m.batch) * l.Generator.Width(); len(m.x) != n {
		m.x, m.dx = make([]float32, n), make([]float32, n)
	}
	l.Generator.Sample(m.x, m.batch, rng)
	clear(m.sum)
	m.features.Sum(m.sum, m.x, m.batch)
	keep := m.memory
	if first {
		keep = 0
	}
	scale := (1 - keep) * float32(m.classes) / float32(len(m.batch))
	for j, s := range m.sum {
		m.made[j] = keep*m.made[j] + scale*float32(s)
		m.weights[j] = m.gain[j] * (m.made[j] - m.mean[j])
	}
	m.features.Slope(m.dx, m.weights, m.x, m.batch)
	l.Step(m.dx, m.x)
}
