package pategan

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/conclave-dp/conclave/internal/discriminator"
	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/pipeline/tilt"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/encode"
)

// firstVoteRound is the number of the first round of votes; round 0 asks for
// the class counts.
const firstVoteRound = 1

// Oracle answers a run's rounds with private releases. Rounds are numbered from 0;
// asking a round again gives the same answer.
type Oracle interface {
	pipeline.CountOracle
	Votes(ctx context.Context, round uint64, q *pipeline.VoteQuestion) (*pipeline.VoteAnswer, error)
}

// Trainer is the state of a student.
type Trainer struct {
	pipeline.Learned
	// start takes the place of the class counts where it is not nil.
	start   pipeline.Start
	opts    Options
	classes int
	source  *rand.PCG
	rng     *rand.Rand

	mover   *tilt.Mover
	heads   []encode.Head
	numbers []int // the features that are numbers

	// rounds holds the newest labelled rounds of the done ones.
	rounds []*labelled
	done   int
	// kept are the pairs of the last rounds, oldest first, and scorer what scores of
	// all of them are computed with.
	kept   []kept
	scorer *discriminator.Discriminator
	// pending is the question of the next round. It is kept, so that a student
	// that starts again asks the very same one.
	pending *pipeline.VoteQuestion
}

// New returns an untrained student. The seed makes training repeatable and
// protects nothing.
func New(opts Options, e *encode.Encoder, classes int, seed uint64) (*Trainer, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	t := &Trainer{opts: opts, classes: classes, source: rand.NewPCG(seed, 0x5eed), heads: e.Heads(),
		numbers: e.Numbers()}
	t.rng = rand.New(t.source)
	s := opts.Student
	g, err := pipeline.NewGenerator(e, pipeline.GeneratorSpec{Noise: s.Noise, Hidden: s.Hidden, Layers: s.Layers,
		Classes: classes}, t.rng)
	if err != nil {
		return nil, err
	}
	if s.Keep > 0 {
		t.scorer, err = discriminator.New(discriminator.Spec{
			Features: e.Width(), Numbers: t.numbers, Classes: classes, Kind: discriminator.Dense, Each: true,
			Standard: true,
		}, rand.New(rand.NewPCG(0, 0))) // which draws nothing: linear ones begin at zero
		if err != nil {
			return nil, fmt.Errorf("pategan: student.keep: %w; 0 keeps none", err)
		}
	}
	t.mover = tilt.New(g, e, classes, tilt.Options{Steps: s.GeneratorSteps, Rate: s.GeneratorRate, Average: s.Average},
		t.rng)
	return t, nil
}

// Generator returns the moving average of the generator.
func (t *Trainer) Generator() *pipeline.Generator { return t.mover.Averaged() }

// Model is the generator with the released class shares.
func (t *Trainer) Model(schema *partition.Schema) (pipeline.Model, error) {
	return pipeline.NewNetwork(schema, t.Generator(), t.Shares())
}

// StartWith has the student begin with more than the class counts. Call it before
// anything else.
func (t *Trainer) StartWith(s pipeline.Start) {
	t.start = s
	t.mover.Hold = s.Hold
}

// Rounds returns the number of rounds of votes learned from.
func (t *Trainer) Rounds() int { return t.done }

// Run asks for the class counts and then for rounds of votes, learning after
// each, until `labels` queries have been asked. After each step it calls keep,
// which may store the state, and progress. A restored trainer goes on where it
// was.
func (t *Trainer) Run(ctx context.Context, oracle Oracle, labels int, keep func() error,
	progress func(pipeline.Progress)) error {
	rounds := (labels + t.opts.Queries - 1) / t.opts.Queries
	if err := t.Begin(ctx, t.start, oracle, t.classes, t.mover.Learner, t.rng, keep); err != nil {
		return err
	}
	for t.done < rounds {
		if t.pending == nil {
			t.pending = t.ask(min(t.opts.Queries, labels-t.done*t.opts.Queries))
			if err := keep(); err != nil {
				return err
			}
		}
		answer, err := oracle.Votes(ctx, uint64(firstVoteRound+t.done), t.pending)
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
			Queries: len(answer.Share)})
	}
	return keep()
}

// student are its options, with the step that is left to be chosen.
func (t *Trainer) student() Student {
	s := t.opts.Student
	switch {
	case s.Step > 0:
	case t.start == nil:
		s.Step = 1
	default:
		s.Step = 0.2
	}
	return s
}

// ask generates the records of the next round, all classes alike.
func (t *Trainer) ask(queries int) *pipeline.VoteQuestion {
	w := t.mover.Generator.Width()
	q := &pipeline.VoteQuestion{Width: w, TrainingClasses: pipeline.Balanced(t.opts.Teacher.Training, t.classes),
		QueryClasses: pipeline.Balanced(queries, t.classes)}
	q.Training = make([]float32, len(q.TrainingClasses)*w)
	t.mover.Generator.Sample(q.Training, q.TrainingClasses, t.rng)
	q.Queries = make([]float32, len(q.QueryClasses)*w)
	t.mover.Generator.Sample(q.Queries, q.QueryClasses, t.rng)
	t.spread(q.Queries)
	return q
}

// errDiverged says that training left the numbers.
var errDiverged = fmt.Errorf("pategan: %w; lower student.generator_rate or raise student.trust", pipeline.ErrDiverged)

// keptRounds bounds the rounds that the discriminator is fitted to. Older ones
// are of a generator long gone, and have little weight.
const keptRounds = 256

// learn adds a round's labels, fits the discriminator to all rounds and moves
// the generator.
func (t *Trainer) learn(ctx context.Context, q *pipeline.VoteQuestion, a *pipeline.VoteAnswer) (answered int,
	err error) {
	n := len(q.QueryClasses)
	if len(a.Share) != n || len(a.Answered) != n {
		return 0, fmt.Errorf("pategan: %d shares and %d marks for %d queries", len(a.Share), len(a.Answered), n)
	}
	r := &labelled{
		x: q.Queries, classes: q.QueryClasses, share: a.Share, known: make([]float32, n), noise: a.Noise,
		change: make([]float32, n),
	}
	for i, ok := range a.Answered {
		if ok {
			if v := a.Share[i]; v-v != 0 {
				return 0, fmt.Errorf("pategan: share %d is %v, not a number", i, v)
			}
			r.known[i] = 1
			answered++
		}
	}
	t.rounds = append(t.rounds, r)
	t.done++
	if len(t.rounds) > keptRounds {
		t.rounds = t.rounds[1:]
	}
	units, err := t.mover.Units(t.classes, t.numbers, t.rng)
	if err != nil {
		return 0, err
	}
	d := newChange(units, t.classes, t.student())
	if err := d.fit(t.rounds, t.done); err != nil {
		return 0, err
	}
	t.keepPair(d)
	if err := t.mover.Follow(ctx, d.of); err != nil {
		return 0, err
	}
	if t.mover.Diverged() {
		return 0, errDiverged
	}
	return answered, nil
}
