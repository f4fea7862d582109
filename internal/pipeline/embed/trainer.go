package embed

import (
	"context"
	"math/rand/v2"

	"github.com/conclave-dp/conclave/internal/nn/safetensors"
	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/partition/encode"
)

// Trainer is the state of a student of `pipeline: embed`: a generator and its start.
type Trainer struct{ *pipeline.NetworkStudent }

// New returns an untrained student. The seed makes training repeatable and protects
// nothing.
func New(opts Options, e *encode.Encoder, classes int, seed uint64) (*Trainer, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	opts = opts.ChosenFor(e, classes, 0) // the features are the start's
	if err := opts.CheckFor(e, classes); err != nil {
		return nil, err
	}
	s, err := pipeline.NewNetworkStudent("embed", e, opts.generator(classes), opts.Fit.StepSize,
		rand.NewPCG(seed, 0xe3bed))
	if err != nil {
		return nil, err
	}
	s.Learner.KeepAverage(opts.Fit.Average)
	return &Trainer{s}, nil
}

// Run asks, and fits the generator to the answer. From time to time it calls keep, which may store the state. A
// restored trainer resumes.
func (t *Trainer) Run(ctx context.Context, keep func() error) error {
	return t.Ask(ctx, nil, 0, keep, nil, nil) // nothing follows the start
}

// Save writes the whole state to path; see [pipeline.NetworkStudent.SaveState].
func (t *Trainer) Save(path, identity string) error {
	return t.SaveState(path, identity, func(c pipeline.Checkpoint, _ *safetensors.Set) any { return c })
}

// Restore loads the state that Save wrote; see [pipeline.NetworkStudent.RestoreState].
func (t *Trainer) Restore(path, identity string) (bool, error) {
	var c pipeline.Checkpoint
	return t.RestoreState(path, identity, pipeline.AskAnew, &c, &c, func(*safetensors.Set) error { return nil })
}
