package pipeline

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"github.com/conclave-dp/conclave/internal/nn/safetensors"
	"github.com/conclave-dp/conclave/internal/nn/tensor"
)

// Errors of checkpoints that a caller may want to tell apart with errors.Is.
var (
	// ErrCheckpoint marks a checkpoint that does not belong to this student.
	ErrCheckpoint = errors.New("the checkpoint does not match this run")
	// ErrDamaged marks a checkpoint that is not what was saved.
	ErrDamaged = errors.New("the checkpoint is damaged")
)

// Checkpoint is the state that every student saves. The pipeline adds its own in State (as JSON) and in tensors.
type Checkpoint struct {
	// Identity names the run and everything that its state depends on.
	Identity string `json:"identity"`
	// Random is the state of the student's random numbers.
	Random string `json:"random"`
	// Steps are the steps of the learner.
	Steps [2]int `json:"steps"`
	// Done is the number of rounds learned from.
	Done int `json:"done"`
	Learned
}

// SaveCheckpoint writes a pipeline's state, which holds its [Checkpoint], with the
// tensors to path, so that a crash leaves the old or the new one.
func SaveCheckpoint(path, pipeline string, state any, set *safetensors.Set) error {
	raw, err := json.Marshal(state)
	if err != nil {
		return fmt.Errorf("encode checkpoint: %w", err)
	}
	set.Metadata[pipeline] = string(raw)
	if err := set.Seal(); err != nil {
		return fmt.Errorf("save checkpoint: %w", err)
	}
	return safetensors.Save(path, set)
}

// AskAnew is the advice for a damaged checkpoint: training is repeatable, so a student without a checkpoint asks
// the same questions again.
const AskAnew = "remove the file and run again: the run starts from its first round, and repeated releases cost nothing"

// LoadCheckpoint reads what SaveCheckpoint wrote into state, and returns the tensors; nil if the file does not
// exist. If the file is damaged, the error matches [ErrDamaged] and ends with fix.
func LoadCheckpoint(path, pipeline, fix string, state any) (*safetensors.Set, error) {
	set, err := safetensors.Load(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case errors.Is(err, safetensors.ErrFormat):
		return nil, damaged(path, fix, err)
	case err != nil:
		return nil, err
	}
	if err := set.CheckSeal(); err != nil {
		return nil, damaged(path, fix, err)
	}
	raw, ok := set.Metadata[pipeline]
	if !ok {
		return nil, Misfit(path, errors.New("it belongs to another pipeline; use another output folder"))
	}
	if err := json.Unmarshal([]byte(raw), state); err != nil {
		return nil, damaged(path, fix, err)
	}
	return set, nil
}

// Misfit returns an error that matches [ErrCheckpoint].
func Misfit(path string, why error) error {
	return fmt.Errorf("%s: %w: %w", path, ErrCheckpoint, why)
}

func damaged(path, fix string, err error) error {
	return fmt.Errorf("%s: %w (%w); %s", path, ErrDamaged, err, fix)
}

// Vector is a tensor of one dimension, for checkpoints.
func Vector(name string, x []float32) tensor.Param {
	return tensor.Param{Name: name, Shape: []int{len(x)}, Value: x}
}
