package pategan

import (
	"errors"
	"fmt"

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

const checkpointKey = "pategan"

// Save writes the whole state to path, so that a crash leaves the old or the
// new checkpoint. identity names the run and all that its state depends on.
func (t *Trainer) Save(path, identity string) error {
	common, set, err := pipeline.NewCheckpoint(identity, t.source, t.mover.Learner, t.start, t.Learned, t.done)
	if err != nil {
		return err
	}
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
		j.PendingTrain, j.PendingQueries = q.TrainingClasses, q.QueryClasses
	}
	return pipeline.SaveCheckpoint(path, checkpointKey, j, set)
}

// Restore loads the state that Save wrote. It reports false when there is none,
// and an error matching [pipeline.ErrCheckpoint] when it is of another run or
// [pipeline.ErrDamaged] when it is not as it was saved.
func (t *Trainer) Restore(path, identity string) (bool, error) {
	var j checkpointJSON
	set, err := pipeline.LoadCheckpoint(path, checkpointKey, pipeline.AskAnew, &j)
	if set == nil || err != nil {
		return false, err
	}
	if err := j.Restore(path, identity, set, t.source, t.mover.Learner, t.start, t.classes); err != nil {
		return false, err
	}
	if len(j.Noise) != len(j.Classes) || j.Done < len(j.Classes) || len(j.Kept) != min(j.Done, t.opts.Student.Keep) {
		return false, pipeline.Misfit(path, errors.New("its parts do not fit together"))
	}
	if err := t.checkClasses(append(j.Classes, j.PendingTrain, j.PendingQueries)); err != nil {
		return false, pipeline.Misfit(path, err)
	}
	t.Learned, t.rounds, t.done, t.pending = j.Learned, nil, j.Done, nil
	w := t.mover.Generator.Width()
	for i, classes := range j.Classes {
		n := len(classes)
		r := &labelled{
			classes: classes, x: make([]float32, n*w), noise: j.Noise[i],
			share: make([]float32, n), known: make([]float32, n), change: make([]float32, n),
		}
		if err := set.CopyTo(fmt.Sprintf("round%d.", i), r.tensors()); err != nil {
			return false, pipeline.Misfit(path, err)
		}
		t.rounds = append(t.rounds, r)
	}
	t.kept = nil
	for i, round := range j.Kept {
		k := t.newKept(round)
		if err := errors.Join(set.CopyTo(fmt.Sprintf("kept%d.generator.", i), k.generator),
			set.CopyTo(fmt.Sprintf("kept%d.", i), k.change())); err != nil {
			return false, pipeline.Misfit(path, err)
		}
		t.kept = append(t.kept, k)
	}
	if len(j.PendingQueries) > 0 {
		q := &pipeline.VoteQuestion{
			Width: w, TrainingClasses: j.PendingTrain, QueryClasses: j.PendingQueries,
			Training: make([]float32, len(j.PendingTrain)*w), Queries: make([]float32, len(j.PendingQueries)*w),
		}
		if err := set.CopyTo("pending.", questionTensors(q)); err != nil {
			return false, pipeline.Misfit(path, err)
		}
		t.pending = q
	}
	return true, nil
}

func (t *Trainer) checkClasses(all [][]int) error {
	for _, classes := range all {
		for _, c := range classes {
			if c < 0 || c >= t.classes {
				return fmt.Errorf("class %d of %d", c, t.classes)
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

func questionTensors(q *pipeline.VoteQuestion) []tensor.Param {
	return []tensor.Param{pipeline.Vector("training", q.Training), pipeline.Vector("queries", q.Queries)}
}
