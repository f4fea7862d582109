package pategan

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/conclave-dp/conclave/nn"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/pipeline"
)

// firstVoteRound is the number of the first round of votes; round 0 asks for
// the class counts.
const firstVoteRound = 1

// Trainer is the state of a student.
type Trainer struct {
	opts    Options
	classes int
	source  *rand.PCG
	rng     *rand.Rand

	generator *pipeline.Generator
	adam      *nn.Adam
	average   *nn.Average
	heads     []partition.Head
	numbers   []int // the features that are numbers

	counts []float64
	// receipts are those of all releases learned from, in their order.
	receipts []string
	// teachersLeast is the least number of teachers that took part in a round,
	// 0 before the first.
	teachersLeast int
	// rounds holds the newest labelled rounds of the done ones.
	rounds []*labelled
	done   int
	// pending is the question of the next round. It is kept, so that a student
	// that starts again asks the very same one.
	pending *pipeline.VoteQuestion
	spent   float64
}

// Progress tells how a run stands after a round.
type Progress struct {
	// Round counts rounds of votes from 1 to Rounds.
	Round, Rounds int
	EpsilonSpent  float64
	Answered      int
	Queries       int
}

// New returns an untrained student. The seed makes training repeatable and
// protects nothing.
func New(opts Options, e *partition.Encoder, classes int, seed uint64) (*Trainer, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	t := &Trainer{opts: opts, classes: classes, source: rand.NewPCG(seed, 0x5eed)}
	t.rng = rand.New(t.source)
	s := opts.Student
	var err error
	t.generator, err = pipeline.NewGenerator(e, pipeline.GeneratorSpec{Noise: s.Noise, Hidden: s.Hidden, Layers: s.Layers, Classes: classes}, t.rng)
	if err != nil {
		return nil, err
	}
	t.adam = nn.NewAdam(t.generator.Net.Params(), s.GeneratorRate)
	t.heads, t.numbers = e.Heads(), e.Numbers()
	t.begin()
	t.average = nn.NewAverage(t.generator.Net, s.Average)
	return t, nil
}

// Generator returns the moving average of the generator.
func (t *Trainer) Generator() *pipeline.Generator { return t.generator.With(t.average.Model()) }

// Shares returns the released class shares.
func (t *Trainer) Shares() []float64 { return pipeline.Shares(t.counts) }

// Rounds returns the number of rounds of votes learned from.
func (t *Trainer) Rounds() int { return t.done }

// Receipts returns the receipts of all releases learned from, in their order:
// what this student knows, some ledger was charged for.
func (t *Trainer) Receipts() []string { return t.receipts }

// TeachersLeast returns the least number of teachers that took part in a round.
// Who is connected does not depend on records, so it is public.
func (t *Trainer) TeachersLeast() int { return t.teachersLeast }

func (t *Trainer) tookPart(teachers int) {
	if t.teachersLeast == 0 || teachers < t.teachersLeast {
		t.teachersLeast = teachers
	}
}

// Run asks for the class counts and then for rounds of votes, learning after
// each, until `labels` queries have been asked. After each step it calls keep,
// which may store the state, and progress. A restored trainer goes on where it
// was.
func (t *Trainer) Run(ctx context.Context, oracle pipeline.Oracle, labels int, keep func() error, progress func(Progress)) error {
	rounds := (labels + t.opts.Queries - 1) / t.opts.Queries
	if t.counts == nil {
		counts, err := oracle.ClassCounts(ctx, 0, t.classes)
		if err != nil {
			return err
		}
		if len(counts.Counts) != t.classes {
			return fmt.Errorf("pategan: %d class counts for %d classes", len(counts.Counts), t.classes)
		}
		t.counts, t.receipts = counts.Counts, append(t.receipts, counts.Receipt)
		t.tookPart(counts.Teachers)
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
		answered, err := t.learn(t.pending, answer)
		if err != nil {
			return err
		}
		t.pending, t.spent, t.receipts = nil, answer.EpsilonSpent, append(t.receipts, answer.Receipt)
		t.tookPart(answer.Teachers)
		progress(Progress{Round: t.done, Rounds: rounds, EpsilonSpent: t.spent, Answered: answered, Queries: len(answer.Share)})
	}
	return keep()
}

// ask generates the records of the next round, all classes alike.
func (t *Trainer) ask(queries int) *pipeline.VoteQuestion {
	w := t.generator.Width()
	q := &pipeline.VoteQuestion{Width: w, TrainingClasses: t.balanced(t.opts.Teacher.Training), QueryClasses: t.balanced(queries)}
	q.Training = make([]float32, len(q.TrainingClasses)*w)
	t.generator.Sample(q.Training, q.TrainingClasses, t.rng)
	q.Queries = make([]float32, len(q.QueryClasses)*w)
	t.generator.Sample(q.Queries, q.QueryClasses, t.rng)
	t.spread(q.Queries)
	return q
}

func (t *Trainer) balanced(n int) []int {
	c := make([]int, n)
	for i := range c {
		c[i] = i % t.classes
	}
	return c
}

// units returns the units of the generator as it is.
func (t *Trainer) units() (*nn.Standard, error) {
	const sample = 2048
	classes := t.balanced(sample)
	x := make([]float32, sample*t.generator.Width())
	t.generator.Sample(x, classes, t.rng)
	return nn.NewStandard(x, classes, t.generator.Width(), t.classes, t.numbers)
}

// errDiverged says that training left the numbers.
var errDiverged = errors.New("pategan: training diverged; lower student.generator_rate or raise student.trust")

// keptRounds bounds the rounds that the discriminator is fitted to. Older ones
// are of a generator long gone, and have little weight.
const keptRounds = 256

// learn adds a round's labels, fits the discriminator to all rounds and moves
// the generator.
func (t *Trainer) learn(q *pipeline.VoteQuestion, a *pipeline.VoteAnswer) (answered int, err error) {
	n := len(q.QueryClasses)
	if len(a.Share) != n || len(a.Answered) != n {
		return 0, fmt.Errorf("pategan: %d shares and %d marks for %d queries", len(a.Share), len(a.Answered), n)
	}
	r := &labelled{
		x: q.Queries, classes: q.QueryClasses, share: a.Share, known: make([]float32, n), noise: a.Noise, change: make([]float32, n),
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
	units, err := t.units()
	if err != nil {
		return 0, err
	}
	d := newChange(units, t.classes, t.opts.Student)
	if err := d.fit(t.rounds, t.done); err != nil {
		return 0, err
	}
	t.follow(d)
	for _, p := range t.generator.Net.Params() {
		for _, v := range p.Value {
			if v != v {
				return 0, errDiverged
			}
		}
	}
	return answered, nil
}
