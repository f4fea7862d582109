package gpate

import (
	"errors"

	"github.com/conclave-dp/conclave/internal/nn/tensor"
	"github.com/conclave-dp/conclave/internal/pipeline"
)

// checkpointJSON is the part of a checkpoint that is not a tensor.
type checkpointJSON struct {
	pipeline.Checkpoint
	// Pending says that the tensors hold the question of the next round, Seed is that
	// of its directions.
	Pending bool   `json:"pending"`
	Seed    uint64 `json:"seed"`
}

const checkpointKey = "gpate"

// Save writes the whole state to path, so that a crash leaves the old or the new
// checkpoint. identity names the run and all that its state depends on.
func (t *Trainer) Save(path, identity string) error {
	common, set, err := pipeline.NewCheckpoint(identity, t.source, t.learner, t.start, t.Learned, t.done)
	if err != nil {
		return err
	}
	j := checkpointJSON{Checkpoint: common}
	if t.pending != nil {
		j.Pending, j.Seed = true, t.pending.Seed
		set.Add("pending.", questionTensors(t.pending))
	}
	return pipeline.SaveCheckpoint(path, checkpointKey, j, set)
}

// Restore loads the state that Save wrote. It reports false when there is none, and an
// error matching [pipeline.ErrCheckpoint] when it is of another run or
// [pipeline.ErrDamaged] when it is not as it was saved.
func (t *Trainer) Restore(path, identity string) (bool, error) {
	var j checkpointJSON
	set, err := pipeline.LoadCheckpoint(path, checkpointKey, pipeline.AskAnew, &j)
	if set == nil || err != nil {
		return false, err
	}
	if err := j.Restore(path, identity, set, t.source, t.learner, t.start, t.classes); err != nil {
		return false, err
	}
	t.Learned, t.done, t.pending = j.Learned, j.Done, nil
	if !j.Pending {
		return true, nil
	}
	if j.Counts == nil {
		return false, pipeline.Misfit(path, errors.New("its parts do not fit together"))
	}
	w := t.learner.Generator.Width()
	q := &pipeline.GradientQuestion{Width: w, TrainingClasses: pipeline.Balanced(t.opts.Teacher.Training, t.classes),
		Classes: t.classesAsked(), Seed: j.Seed}
	q.Training, q.Records = make([]float32, len(q.TrainingClasses)*w), make([]float32, len(q.Classes)*w)
	if err := set.CopyTo("pending.", questionTensors(q)); err != nil {
		return false, pipeline.Misfit(path, err)
	}
	t.pending = q
	return true, nil
}

func questionTensors(q *pipeline.GradientQuestion) []tensor.Param {
	return []tensor.Param{pipeline.Vector("training", q.Training), pipeline.Vector("records", q.Records)}
}
