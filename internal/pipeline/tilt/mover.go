package tilt

import (
	"context"
	"math"
	"math/rand/v2"

	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/partition/encode"
)

// Mover moves a generator of tables.
type Mover struct {
	*pipeline.Learner
	classes, steps int
	heads          []encode.Head
	rng            *rand.Rand
	values         []float32 // memory for the features of a turn's records
	// Hold, where it is not nil, is called after every step.
	Hold func(*pipeline.Learner, *rand.Rand)
}

// Options of a mover: the steps of a turn, Adam's step size, and the decay of the
// generator's moving average per step.
type Options struct {
	Steps         int
	Rate, Average float64
}

// New makes the untrained generator uniform over the public ranges, so that the
// first round asks everywhere. It needs no data.
func New(g *pipeline.Generator, e *encode.Encoder, classes int, o Options, rng *rand.Rand) *Mover {
	m := &Mover{Learner: pipeline.NewLearner(g, o.Rate), classes: classes, steps: o.Steps, heads: e.Heads(), rng: rng}
	m.begin()
	m.KeepAverage(o.Average)
	return m
}

// Follow moves the generator towards its own distribution at the start of the
// round, tilted by exp of a log-ratio of records of classes. Generated records
// weighted by the tilt stand for that distribution, and the generator is fitted
// to their mean features. A tilt that would leave too few records with weight
// is taken in several turns, each on fresh records.
func (m *Mover) Follow(ctx context.Context, of func(x []float32, classes []int) []float32) error {
	const pool, maxTurns, minShare = 4096, 6, 0.4
	w := m.Generator.Width()
	classes := pipeline.Balanced(pool, m.classes)
	x := make([]float32, pool*w)
	for done, turn := 0.0, 0; done < 1 && turn < maxTurns; turn++ {
		m.Generator.Sample(x, classes, m.rng)
		tilt := of(x, classes)
		weights := make([]float32, pool)
		part := 1 - done
		for share := m.weigh(weights, tilt, classes, part); share < minShare && part > 0.02; {
			part *= 0.7
			share = m.weigh(weights, tilt, classes, part)
		}
		done += part
		if err := m.fit(ctx, x, classes, weights, m.steps); err != nil {
			return err
		}
	}
	return nil
}

// weigh sets weights to exp(part*tilt), adding up to 1 in each class, and
// returns the smallest class's effective share of records.
func (m *Mover) weigh(weights, tilt []float32, classes []int, part float64) float64 {
	top, sum, square := make([]float64, m.classes), make([]float64, m.classes), make([]float64, m.classes)
	count := make([]float64, m.classes)
	for c := range top {
		top[c] = math.Inf(-1)
	}
	for i, c := range classes {
		top[c] = math.Max(top[c], float64(tilt[i]))
	}
	for i, c := range classes {
		e := math.Exp(part * (float64(tilt[i]) - top[c]))
		weights[i] = float32(e)
		sum[c] += e
		square[c] += e * e
		count[c]++
	}
	least := 1.0
	for c := range sum {
		least = math.Min(least, sum[c]*sum[c]/square[c]/count[c])
	}
	for i, c := range classes {
		weights[i] /= float32(sum[c])
	}
	return least
}

// fit trains the generator on the mean features of weighted records, until ctx ends.
func (m *Mover) fit(ctx context.Context, x []float32, classes []int, weights []float32, steps int) error {
	const batch, count = 256, 384
	w := m.Generator.Width()
	now, grad := make([]float32, batch*w), make([]float32, batch*w)
	of := pipeline.Balanced(batch, m.classes)
	var f *features
	target := make([]float32, m.classes*count)
	for step := range steps {
		if err := ctx.Err(); err != nil {
			return err
		}
		if step%25 == 0 {
			f = newFeatures(m.rng, count, x, w, m.heads)
			f.value = m.values
			clear(target)
			f.mean(target, x, classes, weights)
			m.values = f.value
		}
		m.Generator.Sample(now, of, m.rng)
		f.pull(grad, now, m.Generator.Numbers(), of, target, m.classes)
		m.Step(grad, now)
		if m.Hold != nil {
			m.Hold(m.Learner, m.rng)
		}
	}
	return nil
}

// begin fits the generator to uniform records.
func (m *Mover) begin() {
	const pool = 4096
	w := m.Generator.Width()
	x, classes, weights := make([]float32, pool*w), pipeline.Balanced(pool, m.classes), make([]float32, pool)
	for i := range weights {
		weights[i] = float32(m.classes) / pool
	}
	for i := range pool {
		m.Uniform(x[i*w : (i+1)*w])
	}
	_ = m.fit(context.Background(), x, classes, weights, 4*m.steps) // which does not end
}

// Uniform draws a record from the public ranges alone.
func (m *Mover) Uniform(row []float32) {
	for _, h := range m.heads {
		switch h.Kind {
		case encode.HeadNumber:
			row[h.Offset] = m.rng.Float32()
		case encode.HeadBinary, encode.HeadMissing:
			row[h.Offset] = float32(m.rng.IntN(2))
			if h.Kind == encode.HeadMissing && row[h.Offset] == 1 {
				row[h.Offset-1] = pipeline.EmptyNumber
			}
		case encode.HeadCategory:
			clear(row[h.Offset : h.Offset+h.Width])
			row[h.Offset+m.rng.IntN(h.Width)] = 1
		}
	}
}
