package dpgan

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/conclave-dp/conclave/internal/discriminator"
	"github.com/conclave-dp/conclave/internal/nn/optimizer"
	"github.com/conclave-dp/conclave/internal/nn/tensor"
	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/pipeline/tilt"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/encode"
)

// firstStepRound is the number of the round of the first step; round 0 asks for the class
// counts.
const firstStepRound = 1

// Oracle answers a run's rounds with private releases. Rounds are numbered from 0;
// asking a round again gives the same answer.
type Oracle interface {
	pipeline.CountOracle
	Discriminator(ctx context.Context, round uint64, q *pipeline.DiscriminatorQuestion) (*pipeline.DiscriminatorAnswer,
		error)
}

// Trainer is the state of a student.
type Trainer struct {
	pipeline.Learned
	// start takes the place of the class counts where it is not nil.
	start   pipeline.Start
	opts    Options
	classes int
	numbers []int // the features that are numbers
	random

	scorer    *discriminator.Discriminator
	optimizer optimizer.Optimizer
	learner   *pipeline.Learner
	// mover holds the same learner; nil where the generator climbs.
	mover    *tilt.Mover
	schedule schedule
	remembered
	// kept are copies of generator and discriminator for what comes after the run.
	kept []Kept

	done int // steps of the discriminator
	mem  memory
}

// random are the student's random numbers, which protect nothing.
type random struct {
	source *rand.PCG
	rng    *rand.Rand
}

// remembered is what the student knows of the gradients that were released.
type remembered struct {
	// real is the gradient on real records, nil before the first release.
	real []float32
	// released is the mean of all gradients where all are of the same mean, see
	// [Options.oneMean]; nil of others.
	released []float32
}

// memory is what steps use again.
type memory struct {
	x, grad []float32
	classes []int
}

// New returns an untrained student. The seed makes training repeatable and protects
// nothing.
func New(opts Options, e *encode.Encoder, classes int, seed uint64) (*Trainer, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	opts = opts.ChosenFor(e)
	if err := opts.CheckFor(e, classes); err != nil {
		return nil, err
	}
	t := &Trainer{opts: opts, classes: classes, numbers: e.Numbers()}
	t.source = rand.NewPCG(seed, 0xd96a4)
	t.rng = rand.New(t.source)
	t.schedule = schedule{every: opts.Student.Every}
	g, err := pipeline.NewGenerator(e, opts.generator(classes), t.rng)
	if err != nil {
		return nil, err
	}
	if t.scorer, err = discriminator.New(opts.Spec(e, classes), t.rng); err != nil {
		return nil, err
	}
	t.optimizer = opts.optimizer(t.scorer.Net.Params())
	s := opts.Student
	if s.Follow == Tilt {
		t.mover = tilt.New(g, e, classes, tilt.Options{Steps: s.Steps, Rate: s.StepSize, Average: s.Average}, t.rng)
		t.learner = t.mover.Learner
		return t, nil
	}
	t.learner = pipeline.NewLearner(g, s.StepSize)
	t.learner.KeepAverage(s.Average)
	return t, nil
}

// optimizer is that of the discriminator.
func (o Options) optimizer(params []tensor.Param) optimizer.Optimizer {
	d := o.Discriminator
	if d.Optimizer == "adam" {
		a := optimizer.NewAdam(params, d.StepSize)
		a.Beta1, a.Decay = d.Momentum, d.Decay
		return a
	}
	s := optimizer.NewSGD(params, d.StepSize)
	s.Momentum, s.Decay = d.Momentum, d.Decay
	return s
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

// Rounds returns the number of steps of the discriminator.
func (t *Trainer) Rounds() int { return t.done }

// Run asks for the class counts and then for the gradients of as many steps, learning
// after each. After each it calls keep, which may store the state, and progress. A
// restored trainer goes on where it was and asks the very same questions: they follow from
// its state.
func (t *Trainer) Run(ctx context.Context, oracle Oracle, rounds int, keep func() error,
	progress func(pipeline.Progress)) error {
	if err := t.Begin(ctx, t.start, oracle, t.classes, t.learner, t.rng, keep); err != nil {
		return err
	}
	for t.done < rounds {
		q, err := t.ask()
		if err != nil {
			return err
		}
		answer, err := oracle.Discriminator(ctx, uint64(firstStepRound+t.done), q)
		if err != nil {
			return err
		}
		if err := t.learn(ctx, answer); err != nil {
			return fmt.Errorf("dpgan: %w", err)
		}
		t.Took(answer.Receipt, answer.Teachers, answer.EpsilonSpent)
		if err := keep(); err != nil {
			return err
		}
		progress(pipeline.Progress{Round: t.done, Rounds: rounds, EpsilonSpent: t.Spent, Answered: 1, Queries: 1})
	}
	return keep()
}

func (t *Trainer) ask() (*pipeline.DiscriminatorQuestion, error) {
	q := &pipeline.DiscriminatorQuestion{}
	if t.opts.Discriminator.Features == "standard" {
		units, err := t.learner.Units(t.classes, t.numbers, t.rng)
		if err != nil {
			return nil, err
		}
		t.scorer.SetUnits(units)
		q.Mean, q.Scale = units.Units()
	}
	q.Weights = t.scorer.Weights()
	return q, nil
}

// errDiverged says that training left the numbers.
var errDiverged = fmt.Errorf("%w; lower step_size and step_end of discriminator or student, or raise "+
	"discriminator.decay", pipeline.ErrDiverged)

// learn takes a step of the discriminator, and those of the generator that are due.
func (t *Trainer) learn(ctx context.Context, a *pipeline.DiscriminatorAnswer) error {
	if err := t.remember(a); err != nil {
		return err
	}
	t.done++
	for i := range t.opts.Discriminator.Reuse {
		t.stepDiscriminator()
		if i == 0 {
			t.keepCopy()
		}
		if !t.schedule.due() {
			continue
		}
		if err := t.follow(ctx, float64(i)/float64(t.opts.Discriminator.Reuse)); err != nil {
			return err
		}
	}
	if t.learner.Diverged() {
		return errDiverged
	}
	return nil
}
