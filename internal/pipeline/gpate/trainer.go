package gpate

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/pipeline/tilt"
	"github.com/conclave-dp/conclave/partition/encode"
	"github.com/conclave-dp/conclave/projection"
)

// Oracle answers a run's rounds with private releases. Rounds are numbered from 0;
// asking a round again gives the same answer.
type Oracle interface {
	pipeline.CountOracle
	Gradients(ctx context.Context, round uint64, q *pipeline.TeacherQuestion) (*pipeline.GradientAnswer, error)
}

// Trainer is the state of a student.
type Trainer struct {
	*pipeline.NetworkStudent
	opts    Options
	seen    int // the length of a gradient
	seed    uint64
	numbers []int // the features that are numbers

	// basis is the basis of the cosines that teachers see, nil if they see other features.
	basis *projection.Projection
	// mover is nil if the generator follows by Move.
	mover *tilt.Mover
	// pending is the question of the next round. It is stored, so that a resumed student asks exactly the same
	// question.
	pending *pipeline.TeacherQuestion
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
	s := opts.Student
	of, err := pipeline.NewNetworkStudent("gpate", e, opts.generator(classes), s.GeneratorRate,
		rand.NewPCG(seed, 0x69a7e))
	if err != nil {
		return nil, err
	}
	t := &Trainer{NetworkStudent: of, opts: opts, seen: opts.Seen(e), seed: seed, numbers: e.Numbers()}
	if image := e.Image(); opts.Teacher.Features == "cosines" {
		if t.basis, err = projection.NewCosines(image.Height, image.Width, image.Channels,
			opts.Teacher.Cosines); err != nil {
			return nil, err
		}
	}
	if s.Follow == Tilt {
		t.mover = tilt.New(of, e, s.GeneratorSteps)
	}
	t.Learner.KeepAverage(s.Average)
	return t, nil
}

// Run asks for the class counts and then for rounds of gradients. It learns after each, then calls keep, which may
// store the state, and progress. A restored trainer resumes.
func (t *Trainer) Run(ctx context.Context, oracle Oracle, rounds int, keep func() error,
	progress func(pipeline.Progress)) error {
	return t.Ask(ctx, oracle, rounds, keep, progress, func(number uint64) (answered, queries int, err error) {
		if t.pending == nil {
			t.pending = t.ask()
			if err := keep(); err != nil {
				return 0, 0, err
			}
		}
		answer, err := oracle.Gradients(ctx, number, t.pending)
		if err != nil {
			return 0, 0, err
		}
		answered, err = t.learn(ctx, t.pending, answer)
		if err != nil {
			return 0, 0, err
		}
		t.pending = nil
		t.Took(answer.Paid)
		return answered, t.opts.Records * t.opts.Directions, nil
	})
}

// ask generates the records of the next round, equally many of each class. It draws a new seed for the
// directions, so that the rounds together cover all directions.
func (t *Trainer) ask() *pipeline.TeacherQuestion {
	w := t.Learner.Generator.Width()
	q := &pipeline.TeacherQuestion{
		Width: w, TrainingClasses: pipeline.Balanced(t.opts.Teacher.Training, t.Classes), Classes: t.classesAsked(),
		Seed: t.Rand.Uint64(),
	}
	q.Training = make([]float32, len(q.TrainingClasses)*w)
	t.Learner.Generator.Sample(q.Training, q.TrainingClasses, t.Rand)
	q.Records = make([]float32, len(q.Classes)*w)
	t.Learner.Generator.Sample(q.Records, q.Classes, t.draws())
	return q
}

// step is how far this round moves.
func (t *Trainer) step() float64 {
	s, last := t.opts.Student, max(1, t.opts.Rounds-1)
	return s.Step + (s.StepEnd-s.Step)*float64(min(t.Done, last))/float64(last)
}

func (t *Trainer) classesAsked() []int { return pipeline.Balanced(t.opts.Records, t.Classes) }

// draws returns the random numbers behind the records of the next round. With them the same generator makes
// these records again, and a generator that has moved makes their new versions.
func (t *Trainer) draws() *rand.Rand {
	return rand.New(rand.NewPCG(t.seed^0x2ec02d5, uint64(t.Done)))
}

// errDiverged means that a weight became NaN or infinite.
var errDiverged = fmt.Errorf("gpate: %w; lower student.generator_rate or student.step", pipeline.ErrDiverged)

// learn moves the generator by the release of a round.
func (t *Trainer) learn(ctx context.Context, q *pipeline.TeacherQuestion, a *pipeline.GradientAnswer) (answered int,
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
	t.Done++
	if t.Learner.Diverged() {
		return 0, errDiverged
	}
	return r.answered, nil
}
