package dpgan

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/conclave-dp/conclave/internal/discriminator"
	"github.com/conclave-dp/conclave/internal/nn/scaling"
	"github.com/conclave-dp/conclave/internal/nn/tensor"
	"github.com/conclave-dp/conclave/internal/pipeline"
)

// Kept is a generator with its discriminator, as they were after a step. Both follow from
// releases alone.
type Kept struct {
	Step                     int
	Generator, Discriminator []tensor.Param
	// Mean and Scale are the units of standard inputs at the time, nil for other inputs. They change with the
	// generator.
	Mean, Scale []float32
}

// keepCopy stores a copy if one is due: at the end of each of Keep equal parts of the run's second half. It is
// called after the discriminator's step, before the generator follows.
func (t *Trainer) keepCopy() {
	keep, steps := t.opts.Student.Keep, t.opts.Steps
	if keep == 0 || t.Done <= steps/2 {
		return
	}
	second := steps - steps/2
	for i := range keep {
		if t.Done == steps/2+(i+1)*second/keep && (len(t.kept) == 0 || t.kept[len(t.kept)-1].Step < t.Done) {
			t.kept = append(t.kept, t.copyAt(t.Done))
		}
	}
}

// copyAt copies the present generator and discriminator.
func (t *Trainer) copyAt(step int) Kept {
	k := Kept{Step: step, Generator: pipeline.CopyParams(t.Learner.Generator.Net.Params()),
		Discriminator: pipeline.CopyParams(t.scorer.Net.Params())}
	if units := t.scorer.Units(); units != nil {
		mean, scale := units.Units()
		k.Mean, k.Scale = slices.Clone(mean), slices.Clone(scale)
	}
	return k
}

// units returns a copy's units as tensors of a checkpoint.
func (k Kept) units() []tensor.Param {
	if k.Mean == nil {
		return nil
	}
	return []tensor.Param{pipeline.Vector("mean", k.Mean), pipeline.Vector("scale", k.Scale)}
}

// Pairs returns the stored generators and discriminators, oldest first. It changes nothing, and calling it
// again gives the same.
//
// With the logistic loss, scores are log-odds already. For the other losses, a factor and an offset in the
// weights of the last layer turn scores into log-odds. They follow from releases and cost nothing. A class with
// weights of its own has its own factor and offset:
//
//   - If all releases have the same mean (a linear discriminator of fixed features), the mean score of
//     real records is known up to the noise. The factor is the one at which generated records, weighted
//     by exp(factor x score), have this mean score. It is the tilt with the least Kullback-Leibler
//     divergence.
//   - For other discriminators, scores of kl-wgan are logarithms of a density ratio up to a
//     constant, and keep their scale. Scores of wasserstein have no scale: they get a standard
//     deviation of 1 over generated records, which is a convention and no estimate.
//   - The factor leaves the tilted generator an effective sample of at least a tenth.
//   - The offset makes the mean of exp(score) over generated records 1, as for a density ratio.
func (t *Trainer) Pairs() ([]pipeline.Pair, error) {
	var pairs []pipeline.Pair
	for _, k := range t.kept {
		p, err := t.pair(k)
		if err != nil {
			return nil, fmt.Errorf("dpgan: the copies after step %d: %w", k.Step, err)
		}
		pairs = append(pairs, p)
	}
	return pairs, nil
}

func (t *Trainer) pair(k Kept) (pipeline.Pair, error) {
	g, err := t.Learner.Generator.WithWeights(k.Generator)
	if err != nil {
		return pipeline.Pair{}, err
	}
	d, err := t.scorer.Clone()
	if err != nil {
		return pipeline.Pair{}, err
	}
	if k.Mean != nil {
		units, err := scaling.FromUnits(k.Mean, k.Scale, g.Width(), t.Classes, t.numbers)
		if err != nil {
			return pipeline.Pair{}, err
		}
		d.SetUnits(units)
	}
	var weights []float32
	for _, p := range k.Discriminator {
		weights = append(weights, p.Value...)
	}
	if err := d.SetWeights(weights); err != nil {
		return pipeline.Pair{}, err
	}
	if t.opts.Discriminator.Loss != Logistic {
		t.calibrate(g, d, rand.New(rand.NewPCG(uint64(k.Step), 0xca1)))
	}
	return pipeline.Pair{Step: k.Step, Generator: g, Discriminator: d}, nil
}

// calibrate makes scores of a generator's records log-odds.
func (t *Trainer) calibrate(g *pipeline.Generator, d *discriminator.Discriminator, rng *rand.Rand) {
	params, heads := d.Net.Params(), d.Net.Out()
	weight, bias := params[len(params)-2], params[len(params)-1]
	for c := range heads {
		scores := t.generatedScores(g, d, c, rng)
		factor := t.factor(scores, weight.Value, bias.Value, c, heads)
		var offset float64
		if factor != 0 {
			offset = logMeanExp(scores, factor)
		}
		for i := c; i < len(weight.Value); i += heads {
			weight.Value[i] = float32(factor * float64(weight.Value[i]))
		}
		bias.Value[c] = float32(factor*float64(bias.Value[c]) - offset)
	}
}

// generatedScores are the scores of a head for generated records of its class, or of all classes by their shares
// if there is one head.
func (t *Trainer) generatedScores(g *pipeline.Generator, d *discriminator.Discriminator, head int,
	rng *rand.Rand) []float64 {
	const count, batch = 4096, 256
	classes, c, upTo := make([]int, count), 0, 0.0
	shares := t.Shares()
	for i := range classes {
		for c < t.Classes-1 && float64(i)+0.5 >= (upTo+shares[c])*count {
			upTo += shares[c]
			c++
		}
		classes[i] = c
		if d.Net.Out() > 1 {
			classes[i] = head
		}
	}
	x, scores := make([]float32, batch*g.Width()), make([]float64, 0, count)
	for ; len(classes) > 0; classes = classes[batch:] {
		g.Sample(x, classes[:batch], rng)
		for _, s := range d.Scores(x, classes[:batch]) {
			scores = append(scores, float64(s))
		}
	}
	return scores
}

// factor is the factor for a head's scores of generated records.
func (t *Trainer) factor(scores []float64, weight, bias []float32, head, heads int) float64 {
	switch {
	case t.opts.oneMean():
		return matching(scores, t.realScore(weight, bias, head, heads))
	case t.opts.Discriminator.Loss == KLWGAN:
		return bounded(scores, 1)
	}
	_, spread := moments(scores)
	if spread == 0 {
		return 0
	}
	return bounded(scores, 1/spread)
}

// realScore estimates the mean score of real records from the releases. A gradient of -score is minus the mean
// features; with respect to the bias it is minus the share of the records. Dividing by that share corrects the
// expected number of records, which is only estimated from releases.
func (t *Trainer) realScore(weight, bias []float32, head, heads int) float64 {
	var sum float64
	for i := head; i < len(weight); i += heads {
		sum -= float64(weight[i]) * float64(t.released[i])
	}
	share := -float64(t.released[len(weight)+head]) * float64(heads)
	return sum*float64(heads)/math.Min(2, math.Max(0.5, share)) + float64(bias[head])
}

// oneMean tells whether every release is a noisy mean of the same features of real records. This holds for a
// linear discriminator whose loss is a mean score and whose units do not change.
func (o Options) oneMean() bool {
	d := o.Discriminator
	return d.Layers == 0 && d.Kind == discriminator.Dense && d.Loss != Logistic && d.Features != "standard"
}
