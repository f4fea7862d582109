package pategan

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"github.com/conclave-dp/conclave/nn"
	"github.com/conclave-dp/conclave/pipeline"
)

// Errors of checkpoints that a caller may want to tell apart with errors.Is.
var (
	// ErrCheckpoint marks a checkpoint that does not belong to this student.
	ErrCheckpoint = errors.New("the checkpoint does not fit this run")
	// ErrDamaged marks a checkpoint that is not what was saved.
	ErrDamaged = errors.New("the checkpoint is damaged")
)

// damaged says what helps: training is repeatable, so that a student without a
// checkpoint asks the very same questions again.
func damaged(path string, err error) error {
	return fmt.Errorf("%s: %w (%w); remove the file and run again: the rounds are asked anew from the first one, and what was released is repeated and costs nothing",
		path, ErrDamaged, err)
}

// checkpointJSON is the part of a checkpoint that is not a tensor.
type checkpointJSON struct {
	Identity       string    `json:"identity"`
	Random         string    `json:"random"`
	Steps          [2]int    `json:"steps"`
	Done           int       `json:"done"`
	Noise          []float64 `json:"noise"`
	Counts         []float64 `json:"counts"`
	Spent          float64   `json:"spent"`
	Receipts       []string  `json:"receipts"`
	TeachersLeast  int       `json:"teachers_least"`
	Classes        [][]int   `json:"classes"`
	PendingTrain   []int     `json:"pending_training"`
	PendingQueries []int     `json:"pending_queries"`
}

const checkpointKey = "pategan"

// Save writes the whole state to path, so that a crash leaves the old or the
// new checkpoint. identity names the run and all that its state depends on.
func (t *Trainer) Save(path, identity string) error {
	random, err := t.source.MarshalBinary()
	if err != nil {
		return fmt.Errorf("pategan: save random state: %w", err)
	}
	j := checkpointJSON{
		Identity: identity, Random: base64.StdEncoding.EncodeToString(random), Counts: t.counts, Spent: t.spent,
		Steps: [2]int{t.adam.Steps(), t.average.Steps()}, Done: t.done, Receipts: t.receipts, TeachersLeast: t.teachersLeast,
	}
	set := nn.NewTensors()
	for _, part := range t.parts() {
		set.Add(part.prefix, part.params)
	}
	for i, r := range t.rounds {
		set.Add(fmt.Sprintf("round%d.", i), r.tensors())
		j.Classes, j.Noise = append(j.Classes, r.classes), append(j.Noise, r.noise)
	}
	if q := t.pending; q != nil {
		set.Add("pending.", questionTensors(q))
		j.PendingTrain, j.PendingQueries = q.TrainingClasses, q.QueryClasses
	}
	raw, err := json.Marshal(j)
	if err != nil {
		return fmt.Errorf("pategan: encode checkpoint: %w", err)
	}
	set.Metadata[checkpointKey] = string(raw)
	if err := set.Seal(); err != nil {
		return fmt.Errorf("pategan: save checkpoint: %w", err)
	}
	return nn.SaveTensors(path, set)
}

// Restore loads the state that Save wrote. It reports false when there is none,
// and an error matching [ErrCheckpoint] when it is of another run or
// [ErrDamaged] when it is not as it was saved.
func (t *Trainer) Restore(path, identity string) (bool, error) {
	set, err := nn.LoadTensors(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if errors.Is(err, nn.ErrFormat) {
		return false, damaged(path, err)
	}
	if err != nil {
		return false, err
	}
	if err := set.CheckSeal(); err != nil {
		return false, damaged(path, err)
	}
	var j checkpointJSON
	if err := json.Unmarshal([]byte(set.Metadata[checkpointKey]), &j); err != nil {
		return false, damaged(path, err)
	}
	if j.Identity != identity {
		return false, fmt.Errorf("%s: %w: it is of another run or of other options; use another output folder", path, ErrCheckpoint)
	}
	for _, part := range t.parts() {
		if err := set.CopyTo(part.prefix, part.params); err != nil {
			return false, fmt.Errorf("%s: %w: %w", path, ErrCheckpoint, err)
		}
	}
	random, err := base64.StdEncoding.DecodeString(j.Random)
	if err == nil {
		err = t.source.UnmarshalBinary(random)
	}
	if err != nil {
		return false, fmt.Errorf("%s: %w: random state: %w", path, ErrCheckpoint, err)
	}
	if len(j.Noise) != len(j.Classes) || j.Done < len(j.Classes) || (j.Counts != nil && (len(j.Counts) != t.classes || len(j.Receipts) != j.Done+1)) {
		return false, fmt.Errorf("%s: %w: its parts do not fit together", path, ErrCheckpoint)
	}
	if err := t.checkClasses(append(j.Classes, j.PendingTrain, j.PendingQueries)); err != nil {
		return false, fmt.Errorf("%s: %w: %w", path, ErrCheckpoint, err)
	}
	t.adam.SetSteps(j.Steps[0])
	t.average.SetSteps(j.Steps[1])
	t.counts, t.spent, t.rounds, t.done, t.pending = j.Counts, j.Spent, nil, j.Done, nil
	t.receipts, t.teachersLeast = j.Receipts, j.TeachersLeast
	w := t.generator.Width()
	for i, classes := range j.Classes {
		n := len(classes)
		r := &labelled{
			classes: classes, x: make([]float32, n*w), noise: j.Noise[i],
			share: make([]float32, n), known: make([]float32, n), change: make([]float32, n),
		}
		if err := set.CopyTo(fmt.Sprintf("round%d.", i), r.tensors()); err != nil {
			return false, fmt.Errorf("%s: %w: %w", path, ErrCheckpoint, err)
		}
		t.rounds = append(t.rounds, r)
	}
	if len(j.PendingQueries) > 0 {
		q := &pipeline.VoteQuestion{
			Width: w, TrainingClasses: j.PendingTrain, QueryClasses: j.PendingQueries,
			Training: make([]float32, len(j.PendingTrain)*w), Queries: make([]float32, len(j.PendingQueries)*w),
		}
		if err := set.CopyTo("pending.", questionTensors(q)); err != nil {
			return false, fmt.Errorf("%s: %w: %w", path, ErrCheckpoint, err)
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

type statePart struct {
	prefix string
	params []nn.Param
}

func (t *Trainer) parts() []statePart {
	return []statePart{
		{"generator.", t.generator.Net.Params()}, {"generator.adam.", t.adam.State()},
		{"average.", t.average.Model().Params()},
	}
}

func (r *labelled) tensors() []nn.Param {
	return []nn.Param{vector("x", r.x), vector("share", r.share), vector("known", r.known), vector("change", r.change)}
}

func questionTensors(q *pipeline.VoteQuestion) []nn.Param {
	return []nn.Param{vector("training", q.Training), vector("queries", q.Queries)}
}

func vector(name string, x []float32) nn.Param {
	return nn.Param{Name: name, Shape: []int{len(x)}, Value: x}
}
