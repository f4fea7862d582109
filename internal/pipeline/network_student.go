package pipeline

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/conclave-dp/conclave/internal/nn/safetensors"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/encode"
)

// NetworkStudent is the common part of all students of a generator network. A pipeline's student embeds it, and
// adds its questions and how it learns from answers.
type NetworkStudent struct {
	Learned
	Learner *Learner
	Classes int
	// Start takes the place of the class counts, unless it is nil.
	Start Start
	// Rand generates the student's random numbers, which protect nothing.
	Rand *rand.Rand
	// Done is the number of rounds learned from, without round 0.
	Done int

	name   string
	source *rand.PCG
}

// NewNetworkStudent makes an untrained student of a pipeline. Its generator takes steps of this size. Its
// source of random numbers makes training repeatable.
func NewNetworkStudent(pipeline string, e *encode.Encoder, spec GeneratorSpec, rate float64,
	source *rand.PCG) (*NetworkStudent, error) {
	s := &NetworkStudent{Classes: spec.Classes, Rand: rand.New(source), name: pipeline, source: source}
	g, err := NewGenerator(e, spec, s.Rand)
	if err != nil {
		return nil, err
	}
	s.Learner = NewLearner(g, rate)
	return s, nil
}

// Generator returns the moving average of the generator.
func (s *NetworkStudent) Generator() *Generator { return s.Learner.Averaged() }

// Model returns the generator with the released class shares.
func (s *NetworkStudent) Model(schema *partition.Schema) (Model, error) {
	return NewNetwork(schema, s.Generator(), s.Shares())
}

// StartWith makes the student begin with more than the class counts. Call it before anything else.
func (s *NetworkStudent) StartWith(start Start) { s.Start = start }

// Rounds returns the number of rounds learned from.
func (s *NetworkStudent) Rounds() int { return s.Done }

// Hold keeps the generator close to the start, if there is one, after a step away from it.
func (s *NetworkStudent) Hold() {
	if s.Start != nil {
		s.Start.Hold(s.Learner, s.Rand)
	}
}

// Begin lets the start begin, or asks for the class counts if there is no start. Afterwards the learner has its
// own step size again, as after a restore.
func (s *NetworkStudent) Begin(ctx context.Context, oracle CountOracle, keep func() error) error {
	if s.Start == nil {
		return s.AskClassCounts(ctx, oracle, s.Classes)
	}
	rate := s.Learner.Rate()
	defer s.Learner.SetRate(rate)
	return s.Start.Begin(ctx, &s.Learned, s.Learner, s.Rand, keep)
}

// Ask begins, and asks rounds up to the given number. After a restart it resumes. Round asks the round of a
// number, notes the release, counts it as done, and returns how many of its queries were answered. Progress is
// called after each round, keep at the end: it may store the state.
func (s *NetworkStudent) Ask(ctx context.Context, oracle CountOracle, rounds int, keep func() error,
	progress func(Progress), round func(number uint64) (answered, queries int, err error)) error {
	if err := s.Begin(ctx, oracle, keep); err != nil {
		return err
	}
	for s.Done < rounds {
		answered, queries, err := round(uint64(1 + s.Done)) // round 0 asks for the class counts
		if err != nil {
			return err
		}
		progress(Progress{Round: s.Done, Rounds: rounds, EpsilonSpent: s.Spent, Answered: answered, Queries: queries})
	}
	return keep()
}

// SaveState writes the whole state to path, so that a crash leaves the old or the new checkpoint. Identity
// names the run and everything that its state depends on. State adds the pipeline's own tensors and returns the
// JSON part, which contains the given [Checkpoint].
func (s *NetworkStudent) SaveState(path, identity string, state func(Checkpoint, *safetensors.Set) any) error {
	random, err := s.source.MarshalBinary()
	if err != nil {
		return fmt.Errorf("checkpoint: save random state: %w", err)
	}
	set := safetensors.New()
	s.Learner.Tensors(set)
	if s.Start != nil {
		s.Start.Tensors(set)
	}
	return SaveCheckpoint(path, s.name, state(Checkpoint{
		Identity: identity, Random: base64.StdEncoding.EncodeToString(random), Steps: s.Learner.Steps(), Done: s.Done,
		Learned: s.Learned,
	}, set), set)
}

// RestoreState loads what SaveState wrote: into state, which contains common, and then by take, which reads the
// pipeline's own tensors. Fix is the advice for a damaged file. It returns false if there is no file; errors
// match [ErrCheckpoint] or [ErrDamaged].
func (s *NetworkStudent) RestoreState(path, identity, fix string, state any, common *Checkpoint,
	take func(*safetensors.Set) error) (bool, error) {
	set, err := LoadCheckpoint(path, s.name, fix, state)
	if set == nil || err != nil {
		return false, err
	}
	if err := s.restore(identity, common, set); err != nil {
		return false, Misfit(path, err)
	}
	if err := take(set); err != nil {
		return false, Misfit(path, err)
	}
	s.Learned, s.Done = common.Learned, common.Done
	return true, nil
}

// ErrParts means that a checkpoint has parts of different states.
var ErrParts = errors.New("its parts do not match")

// restore loads a checkpoint's state into the student's parts, and refuses a checkpoint of another run.
func (s *NetworkStudent) restore(identity string, c *Checkpoint, set *safetensors.Set) error {
	if c.Identity != identity {
		return errors.New("it belongs to another run or other options; use another output folder")
	}
	if c.Done < 0 || !c.fits(c.Done, s.Classes) {
		return ErrParts
	}
	if err := s.Learner.Restore(set); err != nil {
		return err
	}
	if s.Start != nil {
		if err := s.Start.Restore(set, &c.Learned); err != nil {
			return err
		}
	}
	random, err := base64.StdEncoding.DecodeString(c.Random)
	if err == nil {
		err = s.source.UnmarshalBinary(random)
	}
	if err != nil {
		return fmt.Errorf("random state: %w", err)
	}
	s.Learner.SetSteps(c.Steps)
	return nil
}
