package gpate

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/pipeline/tilt"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/encode"
	"github.com/conclave-dp/conclave/projection"
)

// firstGradientRound is the number of the first round of gradients; round 0 asks for
// the class counts.
const firstGradientRound = 1

// Oracle answers a run's rounds with private releases. Rounds are numbered from 0;
// asking a round again gives the same answer.
type Oracle interface {
	pipeline.CountOracle
	Gradients(ctx context.Context, round uint64, q *pipeline.GradientQuestion) (*pipeline.GradientAnswer, error)
}

// Trainer is the state of a student.
type Trainer struct {
	pipeline.Learned
	// start takes the place of the class counts where it is not nil.
	start   pipeline.Start
	opts    Options
	classes int
	seen    int // the length of a gradient
	seed    uint64
	source  *rand.PCG
	rng     *rand.Rand
	numbers []int // the features that are numbers

	learner *pipeline.Learner
	// basis is that of the cosines which teachers see, nil where they see something else.
	basis *projection.Projection
	// mover holds the same learner; nil where the generator follows by moving.
	mover *tilt.Mover

	done int
	// pending is the question of the next round. It is kept, so that a student that
	// starts again asks the very same one.
	pending *pipeline.GradientQuestion
}

// New returns an untrained student. The seed makes training repeatable and protects
// nothing.
func New(opts Options, e *encode.Encoder, classes int, seed uint64) (*Trainer, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	opts = opts.ChosenFor(e)
	if err := opts.CheckFor(e); err != nil {
		return nil, err
	}
	t := &Trainer{opts: opts, classes: classes, seen: opts.Seen(e), seed: seed, source: rand.NewPCG(seed, 0x69a7e),
		numbers: e.Numbers()}
	t.rng = rand.New(t.source)
	if image := e.Image(); opts.Teacher.Features == "cosines" {
		var err error
		if t.basis, err = projection.NewCosines(image.Height, image.Width, image.Channels,
			opts.Teacher.Cosines); err != nil {
			return nil, err
		}
	}
	s := opts.Student
	g, err := pipeline.NewGenerator(e, opts.generator(classes), t.rng)
	if err != nil {
		return nil, err
	}
	if s.Follow == Tilt {
		t.mover = tilt.New(g, e, classes,
			tilt.Options{Steps: s.GeneratorSteps, Rate: s.GeneratorRate, Average: s.Average}, t.rng)
		t.learner = t.mover.Learner
		return t, nil
	}
	t.learner = pipeline.NewLearner(g, s.GeneratorRate)
	t.learner.KeepAverage(s.Average)
	return t, nil
}

// Generator returns the moving average of the generator.
func (t *Trainer) Generator() *pipeline.Generator { return t.learner.Averaged() }

// Model is the generator with the released class shares.
func (t *Trainer) Model(schema *partition.Schema) (pipeline.Model, error) {
	return pipeline.NewNetwork(schema, t.Generator(), t.Shares())
}

// StartWith has the student begin with more than the class counts. Call it before
// anything else.
func (t *Trainer) StartWith(s pipeline.Start) {
	t.start = s
	if t.mover != nil {
		t.mover.Hold = s.Hold
	}
}

// Rounds returns the number of rounds of gradients learned from.
func (t *Trainer) Rounds() int { return t.done }

// Run asks for the class counts and then for rounds of gradients, learning after each.
// After each step it calls keep, which may store the state, and progress. A restored
// trainer goes on where it was.
func (t *Trainer) Run(ctx context.Context, oracle Oracle, rounds int, keep func() error,
	progress func(pipeline.Progress)) error {
	if err := t.Begin(ctx, t.start, oracle, t.classes, t.learner, t.rng, keep); err != nil {
		return err
	}
	for t.done < rounds {
		if t.pending == nil {
			t.pending = t.ask()
			if err := keep(); err != nil {
				return err
			}
		}
		answer, err := oracle.Gradients(ctx, uint64(firstGradientRound+t.done), t.pending)
		if err != nil {
			return err
		}
		answered, err := t.learn(ctx, t.pending, answer)
		if err != nil {
			return err
		}
		t.pending = nil
		t.Took(answer.Receipt, answer.Teachers, answer.EpsilonSpent)
		progress(pipeline.Progress{Round: t.done, Rounds: rounds, EpsilonSpent: t.Spent, Answered: answered,
			Queries: t.opts.Records * t.opts.Directions})
	}
	return keep()
}

// ask generates the records of the next round, all classes alike. The seed of the
// directions is drawn anew, so that over rounds no direction is left out.
func (t *Trainer) ask() *pipeline.GradientQuestion {
	w := t.learner.Generator.Width()
	q := &pipeline.GradientQuestion{
		Width: w, TrainingClasses: pipeline.Balanced(t.opts.Teacher.Training, t.classes), Classes: t.classesAsked(),
		Seed: t.rng.Uint64(),
	}
	q.Training = make([]float32, len(q.TrainingClasses)*w)
	t.learner.Generator.Sample(q.Training, q.TrainingClasses, t.rng)
	q.Records = make([]float32, len(q.Classes)*w)
	t.learner.Generator.Sample(q.Records, q.Classes, t.draws())
	return q
}

// step is how far this round moves.
func (t *Trainer) step() float64 {
	s, last := t.opts.Student, max(1, t.opts.Rounds-1)
	return s.Step + (s.StepEnd-s.Step)*float64(min(t.done, last))/float64(last)
}

func (t *Trainer) classesAsked() []int { return pipeline.Balanced(t.opts.Records, t.classes) }

// draws are the random numbers behind the records of the next round: with them a
// generator makes these records again, or, once it has moved, what has become of them.
func (t *Trainer) draws() *rand.Rand {
	return rand.New(rand.NewPCG(t.seed^0x2ec02d5, uint64(t.done)))
}

// errDiverged says that training left the numbers.
var errDiverged = fmt.Errorf("gpate: %w; lower student.generator_rate or student.step", pipeline.ErrDiverged)

// learn moves the generator by what was released of a round.
func (t *Trainer) learn(ctx context.Context, q *pipeline.GradientQuestion, a *pipeline.GradientAnswer) (answered int,
	err error) {
	r, err := t.steps(q, a)
	if err != nil {
		return 0, err
	}
	if t.mover != nil {
		err = t.tilt(ctx, q, r)
	} else {
		err = t.move(ctx, q, r)
	}
	if err != nil {
		return 0, fmt.Errorf("gpate: %w", err)
	}
	t.done++
	if t.learner.Diverged() {
		return 0, errDiverged
	}
	return r.answered, nil
}
