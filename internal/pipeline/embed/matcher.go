package embed

import (
	"math/rand/v2"

	"github.com/conclave-dp/conclave/internal/embedding"
	"github.com/conclave-dp/conclave/internal/pipeline"
)

// matcher fits a generator to mean features by class.
type matcher struct {
	classes int
	batch   *embedding.Batch
	// mean holds the released means, gain the weight of a difference to each; shape [classes, features].
	mean, gain []float32
	// made is the moving average of the means of generated records, memory its decay.
	made   []float32
	memory float32

	of            []int
	x, filled, dx []float32
	sum           []float64
	weights       []float32
}

func newMatcher(f *embedding.Features, mean, gain []float32, fit Fit) *matcher {
	n := len(mean)
	return &matcher{
		classes: f.Classes(), batch: f.Batch(), mean: mean, gain: gain, made: make([]float32, n),
		memory: float32(fit.Memory),
		of:     pipeline.Balanced(fit.Batch, f.Classes()), sum: make([]float64, n), weights: make([]float32, n),
	}
}

// step takes one step of the generator, after the given number of steps. Its gradient is that of half the squared
// distance of the means.
func (m *matcher) step(l *pipeline.Learner, rng *rand.Rand, after int) {
	g := l.Generator
	if n := len(m.of) * g.Width(); len(m.x) != n {
		m.x, m.filled, m.dx = make([]float32, n), make([]float32, n), make([]float32, n)
	}
	g.Sample(m.x, m.of, rng)
	m.batch.Take(g.Filled(m.filled, m.x), m.of)
	clear(m.sum)
	m.batch.Sum(m.sum)
	// The first steps average over all steps so far.
	keep := min(m.memory, float32(after)/float32(after+1))
	scale := (1 - keep) * float32(m.classes) / float32(len(m.of))
	for j, s := range m.sum {
		m.made[j] = keep*m.made[j] + scale*float32(s)
		m.weights[j] = m.gain[j] * (m.made[j] - m.mean[j])
	}
	m.batch.Slope(m.dx, m.weights)
	l.Step(m.dx, m.x)
}
