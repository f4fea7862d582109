package dpgan

import (
	"errors"
	"fmt"

	"github.com/conclave-dp/conclave/internal/nn/safetensors"
	"github.com/conclave-dp/conclave/internal/nn/tensor"
	"github.com/conclave-dp/conclave/internal/pipeline"
)

// checkpointJSON is the part of a checkpoint that is not a tensor.
type checkpointJSON struct {
	pipeline.Checkpoint
	// OptimizerSteps are the steps of the discriminator's optimizer.
	OptimizerSteps int `json:"optimizer_steps"`
	// Every, and the fields up to Rest, are the state of the schedule.
	Every int     `json:"every"`
	Since int     `json:"since"`
	Found float64 `json:"found"`
	Rest  int     `json:"rest"`
	// Kept are the steps whose copies are in the tensors.
	Kept []int `json:"kept"`
}

// startAnew is the advice for a damaged checkpoint: the answers to its rounds are lost.
const startAnew = "restore it from a backup; without it the run cannot continue, because earlier answers were " +
	"dropped: open a run with another name"

// Save writes the whole state to path; see [pipeline.NetworkStudent.SaveState].
func (t *Trainer) Save(path, identity string) error {
	return t.SaveState(path, identity, func(common pipeline.Checkpoint, set *safetensors.Set) any {
		j := checkpointJSON{
			Checkpoint: common, OptimizerSteps: t.optimizer.Steps(),
			Every: t.schedule.every, Since: t.schedule.since, Found: t.schedule.found, Rest: t.schedule.rest,
		}
		set.Add("discriminator.", t.scorer.Net.Params())
		set.Add("optimizer.", t.optimizer.State())
		if t.real != nil {
			set.Add("", []tensor.Param{pipeline.Vector("real", t.real)})
		}
		if t.released != nil {
			set.Add("", []tensor.Param{pipeline.Vector("released", t.released)})
		}
		for i, k := range t.kept {
			j.Kept = append(j.Kept, k.Step)
			set.Add(keptPrefix(i, "generator"), k.Generator)
			set.Add(keptPrefix(i, "discriminator"), k.Discriminator)
			set.Add(keptPrefix(i, "units"), k.units())
		}
		return j
	})
}

func keptPrefix(i int, part string) string { return fmt.Sprintf("kept.%d.%s.", i, part) }

// Restore loads the state that Save wrote; see [pipeline.NetworkStudent.RestoreState].
func (t *Trainer) Restore(path, identity string) (bool, error) {
	var j checkpointJSON
	return t.RestoreState(path, identity, startAnew, &j, &j.Checkpoint, func(set *safetensors.Set) error {
		if j.Every < 1 || j.Since < 0 || len(j.Kept) > t.opts.Student.Keep || j.Done > 0 && j.Counts == nil {
			return pipeline.ErrParts
		}
		err := errors.Join(set.CopyTo("discriminator.", t.scorer.Net.Params()),
			set.CopyTo("optimizer.", t.optimizer.State()))
		t.kept = nil
		for i, step := range j.Kept {
			k := t.copyAt(step)
			err = errors.Join(err, set.CopyTo(keptPrefix(i, "generator"), k.Generator),
				set.CopyTo(keptPrefix(i, "discriminator"), k.Discriminator), set.CopyTo(keptPrefix(i, "units"),
					k.units()))
			t.kept = append(t.kept, k)
		}
		t.real, t.released = nil, nil
		if j.Done > 0 {
			t.real = make([]float32, t.scorer.Parameters())
			err = errors.Join(err, set.CopyTo("", []tensor.Param{pipeline.Vector("real", t.real)}))
			if t.opts.oneMean() {
				t.released = make([]float32, t.scorer.Parameters())
				err = errors.Join(err, set.CopyTo("", []tensor.Param{pipeline.Vector("released", t.released)}))
			}
		}
		t.optimizer.SetSteps(j.OptimizerSteps)
		t.schedule = schedule{every: j.Every, since: j.Since, found: j.Found, rest: j.Rest}
		return err
	})
}
