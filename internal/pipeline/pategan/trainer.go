package pategan

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/conclave-dp/conclave/internal/discriminator"
	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/pipeline/tilt"
	"github.com/conclave-dp/conclave/partition/encode"
)

// Oracle answers a run's rounds with private releases. Rounds are numbered from 0;
// asking a round again gives the same answer.
type Oracle interface {
	pipeline.CountOracle
	Votes(ctx context.Context, round uint64, q *pipeline.TeacherQuestion) (*pipeline.VoteAnswer, error)
}

// Trainer is the state of a student.
type Trainer struct {
	*pipeline.NetworkStudent
	opts    Options
	mover   *tilt.Mover
	heads   []encode.Head
	numbers []int // the features that are numbers

	// rounds holds the newest labelled rounds of the done ones.
	rounds []*labelled
	// kept are the pairs of the last rounds, oldest first. scorer computes the scores of all of them.
	kept   []kept
	scorer *discriminator.Discriminator
	// pending is the question of the next round. It is stored, so that a resumed student asks exactly the same
	// question.
	pending *pipeline.TeacherQuestion
}

// New returns an untrained student. The seed makes training repeatable and
// protects nothing.
func New(opts Options, e *encode.Encoder, classes int, seed uint64) (*Trainer, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	s := opts.Student
	of, err := pipeline.NewNetworkStudent("pategan", e, pipeline.GeneratorSpec{Noise: s.Noise, Hidden: s.Hidden,
		Layers: s.Layers, Classes: classes}, s.GeneratorRate, rand.NewPCG(seed, 0x5eed))
	if err != nil {
		return nil, err
	}
	t := &Trainer{NetworkStudent: of, opts: opts, heads: e.Heads(), numbers: e.Numbers()}
	if s.Keep > 0 {
		t.scorer, err = discriminator.New(discriminator.Spec{
			Features: e.Width(), Numbers: t.numbers, Classes: classes, Kind: discriminator.Dense, Each: true,
			Standard: true,
		}, rand.New(rand.NewPCG(0, 0))) // it draws nothing: linear networks begin at zero
		if err != nil {
			return nil, fmt.Errorf("pategan: student.keep: %w; 0 keeps none", err)
		}
	}
	t.mover = tilt.New(of, e, s.GeneratorSteps)
	t.Learner.KeepAverage(s.Average)
	return t, nil
}

// Run asks for the class counts and then for rounds of votes, until `labels` queries have been asked. It learns
// after each, then calls keep, which may store the state, and progress. A restored trainer resumes.
func (t *Trainer) Run(ctx context.Context, oracle Oracle, labels int, keep func() error,
	progress func(pipeline.Progress)) error {
	rounds := (labels + t.opts.Queries - 1) / t.opts.Queries
	return t.Ask(ctx, oracle, rounds, keep, progress, func(number uint64) (answered, queries int, err error) {
		if t.pending == nil {
			t.pending = t.ask(min(t.opts.Queries, labels-t.Done*t.opts.Queries))
			if err := keep(); err != nil {
				return 0, 0, err
			}
		}
		answer, err := oracle.Votes(ctx, number, t.pending)
		if err != nil {
			return 0, 0, err
		}
		answered, err = t.learn(ctx, t.pending, answer)
		if err != nil {
			return 0, 0, err
		}
		t.pending = nil
		t.Took(answer.Paid)
		return answered, len(answer.Share), nil
	})
}

// student returns its options, with the step chosen if it is unset.
func (t *Trainer) student() Student {
	s := t.opts.Student
	switch {
	case s.Step > 0:
	case t.Start == nil:
		s.Step = 1
	default:
		s.Step = 0.2
	}
	return s
}

// ask generates the records of the next round, equally many of each class.
func (t *Trainer) ask(queries int) *pipeline.TeacherQuestion {
	w := t.Learner.Generator.Width()
	q := &pipeline.TeacherQuestion{Width: w, TrainingClasses: pipeline.Balanced(t.opts.Teacher.Training, t.Classes),
		Classes: pipeline.Balanced(queries, t.Classes)}
	q.Training = make([]float32, len(q.TrainingClasses)*w)
	t.Learner.Generator.Sample(q.Training, q.TrainingClasses, t.Rand)
	q.Records = make([]float32, len(q.Classes)*w)
	t.Learner.Generator.Sample(q.Records, q.Classes, t.Rand)
	t.spread(q.Records)
	return q
}

// errDiverged means that a weight became NaN or infinite.
var errDiverged = fmt.Errorf("pategan: %w; lower student.generator_rate or raise student.trust", pipeline.ErrDiverged)

// keptRounds bounds the rounds that the discriminator is fitted to. Older rounds come from a very different
// generator, and have little weight.
const keptRounds = 256

// learn adds a round's labels, fits the discriminator to all rounds and moves
// the generator.
func (t *Trainer) learn(ctx context.Context, q *pipeline.TeacherQuestion, a *pipeline.VoteAnswer) (answered int,
	err error) {
	n := len(q.Classes)
	if len(a.Share) != n || len(a.Answered) != n {
		return 0, fmt.Errorf("pategan: %d shares and %d marks for %d queries", len(a.Share), len(a.Answered), n)
	}
	r := &labelled{
		x: q.Records, classes: q.Classes, share: a.Share, known: make([]float32, n), noise: a.Noise,
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
	t.Done++
	if len(t.rounds) > keptRounds {
		t.rounds = t.rounds[1:]
	}
	units, err := t.Learner.Units(t.Classes, t.numbers, t.Rand)
	if err != nil {
		return 0, err
	}
	d := newChange(units, t.Classes, t.student())
	if err := d.fit(t.rounds, t.Done); err != nil {
		return 0, err
	}
	t.keepPair(d)
	if err := t.mover.Follow(ctx, d.of); err != nil {
		return 0, err
	}
	if t.Learner.Diverged() {
		return 0, errDiverged
	}
	return answered, nil
}

// Votes returns the released shares of the rounds that the student stores, the newest last. It returns none if
// only winners were released.
func (t *Trainer) Votes() []pipeline.ReleasedVotes {
	if t.opts.Release != "histogram" {
		return nil
	}
	list := make([]pipeline.ReleasedVotes, len(t.rounds))
	for i, r := range t.rounds {
		list[i] = pipeline.ReleasedVotes{Round: uint64(1 + t.Done - len(t.rounds) + i), Noise: r.noise}
		for q, known := range r.known {
			if known > 0 {
				list[i].Shares = append(list[i].Shares, r.share[q])
			}
		}
	}
	return list
}

// spread replaces columns of every second query by uniform ones, so that the round also learns about regions that
// the generator does not reach.
func (t *Trainer) spread(queries []float32) {
	w := t.Learner.Generator.Width()
	row := make([]float32, w)
	for i := 0; i < len(queries)/w; i++ {
		if t.Rand.Float64() >= t.opts.Student.Spread {
			continue
		}
		t.mover.Uniform(row)
		for k, h := range t.heads {
			if h.Kind == encode.HeadMissing {
				continue // it changes with its number
			}
			hi := h.Offset + h.Width
			if k+1 < len(t.heads) && t.heads[k+1].Kind == encode.HeadMissing {
				hi++
			}
			if t.Rand.IntN(2) == 0 {
				copy(queries[i*w+h.Offset:i*w+hi], row[h.Offset:hi])
			}
		}
	}
}
