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

// NetworkStudent is what all students of a generator network have. That of a pipeline embeds it, and
// adds what it asks and how it learns from answers.
type NetworkStudent struct {
	Learned
	Learner *Learner
	Classes int
	// Start takes the place of the class counts where it is not nil.
	Start Start
	// Rand are the student's random numbers, which protect nothing.
	Rand *rand.Rand
	// Done is the number of rounds learned from, besides round 0.
	Done int

	name   string
	source *rand.PCG
}

// NewNetworkStudent makes an untrained one of a pipeline, with a generator that takes steps of this size.
// Its source of random numbers makes training repeatable.
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

// Model is the generator with the released class shares.
func (s *NetworkStudent) Model(schema *partition.Schema) (Model, error) {
	return NewNetwork(schema, s.Generator(), s.Shares())
}

// StartWith has the student begin with more than the class counts. Call it before anything else.
func (s *NetworkStudent) StartWith(start Start) { s.Start = start }

// Rounds returns the number of rounds learned from.
func (s *NetworkStudent) Rounds() int { return s.Done }

// Hold keeps the generator close to the start, if there is one, after a step away from it.
func (s *NetworkStudent) Hold() {
	if s.Start != nil {
		s.Start.Hold(s.Learner, s.Rand)
	}
}

// Begin lets the start begin, or asks for the class counts where there is none. The learner's
// step size is its own again after it, as it is after a restore.
func (s *NetworkStudent) Begin(ctx context.Context, oracle CountOracle, keep func() error) error {
	if s.Start == nil {
		return s.AskClassCounts(ctx, oracle, s.Classes)
	}
	rate := s.Learner.Rate()
	defer s.Learner.SetRate(rate)
	return s.Start.Begin(ctx, &s.Learned, s.Learner, s.Rand, keep)
}

// Ask begins, and asks rounds until so many are done, from where it was before a restart. Round asks
// the one of a number, notes the release, and counts it as done; it returns how many of its queries were
// answered. Progress is called after each, keep at the end: it may store the state.
func (s *NetworkStudent) Ask(ctx context.Context, oracle CountOracle, rounds int, keep func() error,
	progress func(Progress), round func(number uint64) (answered, queries int, err error)) error {
	if err := s.Begin(ctx, oracle, keep); err != nil {
		return err
	}
	for s.Done < rounds {
		answered, queries, err := round(uint64(1 + s.Done)) // round 0 is that of the class counts
		if err != nil {
			return err
		}
		progress(Progress{Round: s.Done, Rounds: rounds, EpsilonSpent: s.Spent, Answered: answered, Queries: queries})
	}
	return keep()
}

// SaveState writes the whole state to path, so that a crash leaves the old or the new checkpoint.
// Identity names the run and all that its state depends on. State adds the pipeline's own tensors and
// returns what is kept as JSON, which holds the [Checkpoint] that it is given.
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

// RestoreState loads what SaveState wrote: into state, which holds common, and then by take, which
// takes the pipeline's own tensors. Fix says what helps where the file is damaged. It reports false where
// there is none; errors match [ErrCheckpoint] or [ErrDamaged].
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

// ErrParts says that a checkpoint holds parts of different states.
var ErrParts = errors.New("its parts do not fit together")

// restore gives the student's parts the state that a checkpoint holds, and refuses one of another run.
func (s *NetworkStudent) restore(identity string, c *Checkpoint, set *safetensors.Set) error {
	if c.Identity != identity {
		return errors.New("it is of another run or of other options; use another output folder")
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
