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
	"github.com/conclave-dp/conclave/partition/encode"
)

// Oracle answers a run's rounds with private releases. Rounds are numbered from 0;
// asking a round again gives the same answer.
type Oracle interface {
	pipeline.CountOracle
	Discriminator(ctx context.Context, round uint64, q *pipeline.DiscriminatorQuestion) (*pipeline.DiscriminatorAnswer,
		error)
}

// Trainer is the state of a student.
type Trainer struct {
	*pipeline.NetworkStudent
	opts    Options
	numbers []int // the features that are numbers

	scorer    *discriminator.Discriminator
	optimizer optimizer.Optimizer
	// mover is nil if the generator climbs.
	mover    *tilt.Mover
	schedule schedule
	remembered
	// kept are copies of generator and discriminator for stages after training.
	kept []Kept
	mem  memory
}

// remembered is the student's state from the released gradients.
type remembered struct {
	// real is the gradient on real records, nil before the first release.
	real []float32
	// released is the mean of all gradients if all estimate the same mean, see [Options.oneMean]; otherwise nil.
	released []float32
}

// memory holds buffers that steps reuse.
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
	s := opts.Student
	of, err := pipeline.NewNetworkStudent("dpgan", e, opts.generator(classes), s.StepSize, rand.NewPCG(seed, 0xd96a4))
	if err != nil {
		return nil, err
	}
	t := &Trainer{NetworkStudent: of, opts: opts, numbers: e.Numbers(), schedule: schedule{every: s.Every}}
	if t.scorer, err = discriminator.New(opts.Spec(e, classes), t.Rand); err != nil {
		return nil, err
	}
	t.optimizer = opts.optimizer(t.scorer.Net.Params())
	if s.Follow == Tilt {
		t.mover = tilt.New(of, e, s.Steps)
	}
	t.Learner.KeepAverage(s.Average)
	return t, nil
}

// optimizer is the discriminator's optimizer.
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

// Run asks for the class counts and then for the gradients of the given number of steps. It learns after each,
// then calls keep, which may store the state, and progress. A restored trainer resumes and asks the same
// questions, since they follow from its state.
func (t *Trainer) Run(ctx context.Context, oracle Oracle, rounds int, keep func() error,
	progress func(pipeline.Progress)) error {
	return t.Ask(ctx, oracle, rounds, keep, progress, func(number uint64) (answered, queries int, err error) {
		q, err := t.ask()
		if err != nil {
			return 0, 0, err
		}
		answer, err := oracle.Discriminator(ctx, number, q)
		if err != nil {
			return 0, 0, err
		}
		if err := t.learn(ctx, answer); err != nil {
			return 0, 0, fmt.Errorf("dpgan: %w", err)
		}
		t.Took(answer.Paid)
		return 1, 1, keep()
	})
}

func (t *Trainer) ask() (*pipeline.DiscriminatorQuestion, error) {
	q := &pipeline.DiscriminatorQuestion{}
	if t.opts.Discriminator.Features == "standard" {
		units, err := t.Learner.Units(t.Classes, t.numbers, t.Rand)
		if err != nil {
			return nil, err
		}
		t.scorer.SetUnits(units)
		q.Mean, q.Scale = units.Units()
	}
	q.Weights = t.scorer.Weights()
	return q, nil
}

// errDiverged means that a weight became NaN or infinite.
var errDiverged = fmt.Errorf("%w; lower step_size and step_end of discriminator or student, or raise "+
	"discriminator.decay", pipeline.ErrDiverged)

// learn takes a step of the discriminator, and the generator's steps that are due.
func (t *Trainer) learn(ctx context.Context, a *pipeline.DiscriminatorAnswer) error {
	if err := t.remember(a); err != nil {
		return err
	}
	t.Done++
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
	if t.Learner.Diverged() {
		return errDiverged
	}
	return nil
}
