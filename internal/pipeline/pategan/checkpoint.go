package pategan

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
	Noise          []float64 `json:"noise"`
	Classes        [][]int   `json:"classes"`
	PendingTrain   []int     `json:"pending_training"`
	PendingQueries []int     `json:"pending_queries"`
	// Kept are the rounds whose pairs are in the tensors.
	Kept []int `json:"kept"`
}

// Save writes the whole state to path; see [pipeline.NetworkStudent.SaveState].
func (t *Trainer) Save(path, identity string) error {
	return t.SaveState(path, identity, func(common pipeline.Checkpoint, set *safetensors.Set) any {
		j := checkpointJSON{Checkpoint: common}
		for i, r := range t.rounds {
			set.Add(fmt.Sprintf("round%d.", i), r.tensors())
			j.Classes, j.Noise = append(j.Classes, r.classes), append(j.Noise, r.noise)
		}
		for i, k := range t.kept {
			set.Add(fmt.Sprintf("kept%d.generator.", i), k.generator)
			set.Add(fmt.Sprintf("kept%d.", i), k.change())
			j.Kept = append(j.Kept, k.round)
		}
		if q := t.pending; q != nil {
			set.Add("pending.", questionTensors(q))
			j.PendingTrain, j.PendingQueries = q.TrainingClasses, q.Classes
		}
		return j
	})
}

// Restore loads the state that Save wrote; see [pipeline.NetworkStudent.RestoreState].
func (t *Trainer) Restore(path, identity string) (bool, error) {
	var j checkpointJSON
	return t.RestoreState(path, identity, pipeline.AskAnew, &j, &j.Checkpoint, func(set *safetensors.Set) error {
		if len(j.Noise) != len(j.Classes) || j.Done < len(j.Classes) || len(j.Kept) != min(j.Done,
			t.opts.Student.Keep) {
			return pipeline.ErrParts
		}
		if err := t.checkClasses(append(j.Classes, j.PendingTrain, j.PendingQueries)); err != nil {
			return err
		}
		t.rounds, t.kept, t.pending = nil, nil, nil
		w := t.Learner.Generator.Width()
		var err error
		for i, classes := range j.Classes {
			n := len(classes)
			r := &labelled{
				classes: classes, x: make([]float32, n*w), noise: j.Noise[i],
				share: make([]float32, n), known: make([]float32, n), change: make([]float32, n),
			}
			err = errors.Join(err, set.CopyTo(fmt.Sprintf("round%d.", i), r.tensors()))
			t.rounds = append(t.rounds, r)
		}
		for i, round := range j.Kept {
			k := t.newKept(round)
			err = errors.Join(err, set.CopyTo(fmt.Sprintf("kept%d.generator.", i), k.generator),
				set.CopyTo(fmt.Sprintf("kept%d.", i), k.change()))
			t.kept = append(t.kept, k)
		}
		if len(j.PendingQueries) > 0 {
			t.pending = &pipeline.TeacherQuestion{
				Width: w, TrainingClasses: j.PendingTrain, Classes: j.PendingQueries,
				Training: make([]float32, len(j.PendingTrain)*w), Records: make([]float32, len(j.PendingQueries)*w),
			}
			err = errors.Join(err, set.CopyTo("pending.", questionTensors(t.pending)))
		}
		return err
	})
}

func (t *Trainer) checkClasses(all [][]int) error {
	for _, classes := range all {
		for _, c := range classes {
			if c < 0 || c >= t.Classes {
				return fmt.Errorf("class %d of %d", c, t.Classes)
			}
		}
	}
	return nil
}

func (r *labelled) tensors() []tensor.Param {
	return []tensor.Param{
		pipeline.Vector("x", r.x), pipeline.Vector("share", r.share), pipeline.Vector("known", r.known),
		pipeline.Vector("change", r.change),
	}
}

func questionTensors(q *pipeline.TeacherQuestion) []tensor.Param {
	return []tensor.Param{pipeline.Vector("training", q.Training), pipeline.Vector("queries", q.Records)}
}
