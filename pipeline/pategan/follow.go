package pategan

import "math"

// follow moves the generator towards its own distribution at the start of the
// round, tilted by exp of the discriminator's change. Generated records
// weighted by the tilt stand for that distribution, and the generator is fitted
// to their mean features. A tilt that would leave too few records with weight
// is taken in several turns, each on fresh records.
func (t *Trainer) follow(d *change) {
	const pool, maxTurns, minShare = 4096, 6, 0.4
	w := t.generator.Width()
	classes := t.balanced(pool)
	x := make([]float32, pool*w)
	for done, turn := 0.0, 0; done < 1 && turn < maxTurns; turn++ {
		t.generator.Sample(x, classes, t.rng)
		tilt := d.of(x, classes)
		weights := make([]float32, pool)
		part := 1 - done
		for share := t.weigh(weights, tilt, classes, part); share < minShare && part > 0.02; {
			part *= 0.7
			share = t.weigh(weights, tilt, classes, part)
		}
		done += part
		t.fit(x, classes, weights, t.opts.Student.GeneratorSteps)
	}
}

// weigh sets weights to exp(part*tilt), adding up to 1 in each class, and
// returns the smallest class's effective share of records.
func (t *Trainer) weigh(weights, tilt []float32, classes []int, part float64) float64 {
	top, sum, square := make([]float64, t.classes), make([]float64, t.classes), make([]float64, t.classes)
	count := make([]float64, t.classes)
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

// fit trains the generator on the mean features of weighted records.
func (t *Trainer) fit(x []float32, classes []int, weights []float32, steps int) {
	const batch, count = 256, 384
	w := t.generator.Width()
	now, grad := make([]float32, batch*w), make([]float32, batch*w)
	of := t.balanced(batch)
	var f *features
	target := make([]float32, t.classes*count)
	for step := range steps {
		if step%25 == 0 {
			f = newFeatures(t.rng, count, x, w, t.heads)
			clear(target)
			f.mean(target, x, classes, weights)
		}
		t.generator.Sample(now, of, t.rng)
		f.pull(grad, now, t.generator.Numbers(), of, target, t.classes)
		t.generator.Backward(grad, now)
		t.adam.Step()
		if t.average != nil {
			t.average.Update(t.generator.Net)
		}
	}
}

// begin makes the untrained generator uniform over the public ranges, so that
// the first round asks everywhere. It needs no data.
func (t *Trainer) begin() {
	const pool = 4096
	w := t.generator.Width()
	x, classes, weights := make([]float32, pool*w), t.balanced(pool), make([]float32, pool)
	for i := range weights {
		weights[i] = float32(t.classes) / pool
	}
	for i := range pool {
		t.uniform(x[i*w : (i+1)*w])
	}
	t.fit(x, classes, weights, 4*t.opts.Student.GeneratorSteps)
}
