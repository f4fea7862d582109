package pategan

import (
	"fmt"
	"slices"

	"github.com/conclave-dp/conclave/internal/nn/scaling"
	"github.com/conclave-dp/conclave/internal/nn/tensor"
	"github.com/conclave-dp/conclave/internal/pipeline"
)

// kept is the stored state of a round: the moving average of the generator before it followed the round's change,
// and the change.
type kept struct {
	round     int
	generator []tensor.Param
	// weights has shape [features, classes]: the shared weights plus those of each class.
	weights []float32
	// mean and scale are the change's units.
	mean, scale []float32
}

// keepPair stores a change that the generator has not followed yet.
func (t *Trainer) keepPair(d *change) {
	if t.opts.Student.Keep == 0 {
		return
	}
	k := t.newKept(t.Done)
	m := d.units.Width()
	for i := range m {
		for c := range t.Classes {
			k.weights[i*t.Classes+c] = float32(d.weights[i] + d.weights[(1+c)*m+i])
		}
	}
	mean, scale := d.units.Units()
	k.mean, k.scale = slices.Clone(mean), slices.Clone(scale)
	t.kept = append(t.kept, k)
	if len(t.kept) > t.opts.Student.Keep {
		t.kept = slices.Delete(t.kept, 0, 1)
	}
}

// newKept stores the generator's present average, with a change of zero.
func (t *Trainer) newKept(round int) kept {
	units := t.Learner.Generator.Width() * t.Classes
	return kept{
		round: round, generator: pipeline.CopyParams(t.Generator().Net.Params()),
		weights: make([]float32, (t.Learner.Generator.Width()+len(t.numbers))*t.Classes),
		mean:    make([]float32, units), scale: make([]float32, units),
	}
}

func (k kept) change() []tensor.Param {
	return []tensor.Param{pipeline.Vector("weights", k.weights), pipeline.Vector("mean", k.mean),
		pipeline.Vector("scale", k.scale)}
}

// Pairs returns the generators of the last rounds, oldest first, each with the change of the discriminator that
// was fitted to the round's labels. The change estimates the log-ratio of real records to the generator's, up
// to a constant per class, as well as the votes allow. After relative votes it only ranks records, in units
// that student.trust sets.
func (t *Trainer) Pairs() ([]pipeline.Pair, error) {
	var pairs []pipeline.Pair
	for _, k := range t.kept {
		g, err := t.Learner.Generator.WithWeights(k.generator)
		if err != nil {
			return nil, fmt.Errorf("pategan: the generator of round %d: %w", k.round, err)
		}
		units, err := scaling.FromUnits(k.mean, k.scale, t.Learner.Generator.Width(), t.Classes, t.numbers)
		if err != nil {
			return nil, fmt.Errorf("pategan: the units of round %d: %w", k.round, err)
		}
		d, err := t.scorer.Clone()
		if err != nil {
			return nil, fmt.Errorf("pategan: %w", err)
		}
		d.SetUnits(units)
		// The biases come after the weights; a change has none.
		if err := d.SetWeights(append(slices.Clone(k.weights), make([]float32, t.Classes)...)); err != nil {
			return nil, fmt.Errorf("pategan: the change of round %d: %w", k.round, err)
		}
		pairs = append(pairs, pipeline.Pair{Step: k.round, Generator: g, Discriminator: d})
	}
	return pairs, nil
}
