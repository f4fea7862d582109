package dpgan

import "github.com/conclave-dp/conclave/nn"

// Kept is a generator with its discriminator, as they were after a step. Both follow from
// releases alone.
type Kept struct {
	Step                     int
	Generator, Discriminator []nn.Param
}

// keepCopy keeps a copy after the step of the discriminator, and before the generator
// follows, where one is due: at the end of each of Keep equal parts of the run's second half.
func (t *Trainer) keepCopy() {
	keep, steps := t.opts.Student.Keep, t.opts.Steps
	if keep == 0 || t.done <= steps/2 {
		return
	}
	second := steps - steps/2
	for i := range keep {
		if t.done == steps/2+(i+1)*second/keep && (len(t.kept) == 0 || t.kept[len(t.kept)-1].Step < t.done) {
			t.kept = append(t.kept, Kept{t.done, copied(t.learner.Generator.Net.Params()), copied(t.scorer.Net.Params())})
		}
	}
}

// Kept returns the generators and discriminators that were kept, oldest first.
func (t *Trainer) Kept() []Kept { return t.kept }

func copied(params []nn.Param) []nn.Param {
	out := make([]nn.Param, len(params))
	for i, p := range params {
		out[i] = nn.Param{Name: p.Name, Shape: p.Shape, Value: append([]float32(nil), p.Value...)}
	}
	return out
}
