package tilt

import (
	"context"
	"math"

	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/partition/encode"
)

// Mover moves a generator of tables.
type Mover struct {
	of     *pipeline.NetworkStudent
	steps  int // of a turn
	heads  []encode.Head
	memory scratch
}

// New makes the untrained generator of a student uniform over the public ranges, so that the first round asks
// about all of them. It needs no data.
func New(of *pipeline.NetworkStudent, e *encode.Encoder, steps int) *Mover {
	m := &Mover{of: of, steps: steps, heads: e.Heads()}
	m.begin()
	return m
}

func (m *Mover) generator() *pipeline.Generator { return m.of.Learner.Generator }

// Follow moves the generator towards its own distribution at the start of the round, tilted by exp of a
// log-ratio of records of classes. Generated records weighted by the tilt represent that distribution, and the
// generator is fitted to their mean features. A tilt that would leave too few records with weight is applied in
// several turns, each on fresh records.
func (m *Mover) Follow(ctx context.Context, of func(x []float32, classes []int) []float32) error {
	const pool, maxTurns, minShare = 4096, 6, 0.4
	w := m.generator().Width()
	classes := pipeline.Balanced(pool, m.of.Classes)
	x := make([]float32, pool*w)
	for done, turn := 0.0, 0; done < 1 && turn < maxTurns; turn++ {
		m.generator().Sample(x, classes, m.of.Rand)
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
	top, sum, square := make([]float64, m.of.Classes), make([]float64, m.of.Classes), make([]float64, m.of.Classes)
	count := make([]float64, m.of.Classes)
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
	w := m.generator().Width()
	now, grad := make([]float32, batch*w), make([]float32, batch*w)
	of := pipeline.Balanced(batch, m.of.Classes)
	var f *features
	target := make([]float32, m.of.Classes*count)
	for step := range steps {
		if err := ctx.Err(); err != nil {
			return err
		}
		if step%25 == 0 {
			f = newFeatures(m.of.Rand, count, x, w, m.heads)
			f.scratch = m.memory
			clear(target)
			f.mean(target, x, classes, weights)
		}
		m.generator().Sample(now, of, m.of.Rand)
		f.pull(grad, now, m.generator().Numbers(), of, target, m.of.Classes)
		m.memory = f.scratch
		m.of.Learner.Step(grad, now)
		m.of.Hold()
	}
	return nil
}

// begin fits the generator to uniform records.
func (m *Mover) begin() {
	const pool = 4096
	w := m.generator().Width()
	x, classes, weights := make([]float32, pool*w), pipeline.Balanced(pool, m.of.Classes), make([]float32, pool)
	for i := range weights {
		weights[i] = float32(m.of.Classes) / pool
	}
	for i := range pool {
		m.Uniform(x[i*w : (i+1)*w])
	}
	_ = m.fit(context.Background(), x, classes, weights, 4*m.steps) // this context does not end
}

// Uniform draws a record uniformly from the public ranges.
func (m *Mover) Uniform(row []float32) {
	for _, h := range m.heads {
		switch h.Kind {
		case encode.HeadNumber:
			row[h.Offset] = m.of.Rand.Float32()
		case encode.HeadBinary, encode.HeadMissing:
			row[h.Offset] = float32(m.of.Rand.IntN(2))
			if h.Kind == encode.HeadMissing && row[h.Offset] == 1 {
				row[h.Offset-1] = pipeline.EmptyNumber
			}
		case encode.HeadCategory:
			clear(row[h.Offset : h.Offset+h.Width])
			row[h.Offset+m.of.Rand.IntN(h.Width)] = 1
		}
	}
}
