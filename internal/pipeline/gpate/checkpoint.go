package gpate

import (
	"github.com/conclave-dp/conclave/internal/nn/safetensors"
	"github.com/conclave-dp/conclave/internal/nn/tensor"
	"github.com/conclave-dp/conclave/internal/pipeline"
)

// checkpointJSON is the part of a checkpoint that is not a tensor.
type checkpointJSON struct {
	pipeline.Checkpoint
	// Pending says that the tensors hold the question of the next round; Seed is the seed of its directions.
	Pending bool   `json:"pending"`
	Seed    uint64 `json:"seed"`
}

// Save writes the whole state to path; see [pipeline.NetworkStudent.SaveState].
func (t *Trainer) Save(path, identity string) error {
	return t.SaveState(path, identity, func(common pipeline.Checkpoint, set *safetensors.Set) any {
		j := checkpointJSON{Checkpoint: common}
		if t.pending != nil {
			j.Pending, j.Seed = true, t.pending.Seed
			set.Add("pending.", questionTensors(t.pending))
		}
		return j
	})
}

// Restore loads the state that Save wrote; see [pipeline.NetworkStudent.RestoreState].
func (t *Trainer) Restore(path, identity string) (bool, error) {
	var j checkpointJSON
	return t.RestoreState(path, identity, pipeline.AskAnew, &j, &j.Checkpoint, func(set *safetensors.Set) error {
		if t.pending = nil; !j.Pending {
			return nil
		}
		if j.Counts == nil {
			return pipeline.ErrParts
		}
		w := t.Learner.Generator.Width()
		q := &pipeline.TeacherQuestion{Width: w, TrainingClasses: pipeline.Balanced(t.opts.Teacher.Training,
			t.Classes),
			Classes: t.classesAsked(), Seed: j.Seed}
		q.Training, q.Records = make([]float32, len(q.TrainingClasses)*w), make([]float32, len(q.Classes)*w)
		t.pending = q
		return set.CopyTo("pending.", questionTensors(q))
	})
}

func questionTensors(q *pipeline.TeacherQuestion) []tensor.Param {
	return []tensor.Param{pipeline.Vector("training", q.Training), pipeline.Vector("records", q.Records)}
}
