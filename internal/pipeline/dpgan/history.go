package dpgan

import (
	"slices"

	"github.com/conclave-dp/conclave/internal/nn/tensor"
	"github.com/conclave-dp/conclave/internal/pipeline"
)

// Kept is a generator with its discriminator, as they were after a step. Both follow from
// releases alone.
type Kept struct {
	Step                     int
	Generator, Discriminator []tensor.Param
	// Mean and Scale are the units of standard inputs at the time, nil of others: they
	// move with the generator.
	Mean, Scale []float32
}

// keepCopy keeps a copy after the step of the discriminator, and before the generator
// follows, where one is due: at the end of each of Keep equal parts of the run's second half.
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

// copyAt copies generator and discriminator as they are.
func (t *Trainer) copyAt(step int) Kept {
	k := Kept{Step: step, Generator: pipeline.CopyParams(t.Learner.Generator.Net.Params()),
		Discriminator: pipeline.CopyParams(t.scorer.Net.Params())}
	if units := t.scorer.Units(); units != nil {
		mean, scale := units.Units()
		k.Mean, k.Scale = slices.Clone(mean), slices.Clone(scale)
	}
	return k
}

// units are a copy's, as tensors of a checkpoint.
func (k Kept) units() []tensor.Param {
	if k.Mean == nil {
		return nil
	}
	return []tensor.Param{pipeline.Vector("mean", k.Mean), pipeline.Vector("scale", k.Scale)}
}
