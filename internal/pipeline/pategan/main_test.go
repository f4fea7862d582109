package pategan

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/conclave-dp/conclave/internal/nn"
	"github.com/conclave-dp/conclave/internal/nn/ensemble"
	"github.com/conclave-dp/conclave/internal/nn/scaling"
	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/pipeline/studenttest"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// smallOptions keep a test short; the race detector makes training some thirty
// times slower.
func smallOptions() Options {
	o := DefaultOptions()
	o.Queries, o.Teacher.Training = 16, 8
	o.Student.Noise, o.Student.Hidden = 4, 16
	o.Student.GeneratorSteps = 3
	return o
}

// crowd answers votes with real teachers on made-up records, and normal noise on the shares. A repeated round
// gets the same answer.
type crowd struct {
	noise    float64
	coin     bool
	options  Options
	asked    []*pipeline.TeacherQuestion
	answers  map[uint64]*pipeline.VoteAnswer
	real     []ensemble.Examples
	models   *ensemble.Ensemble
	rng      *rand.Rand
	counts   []float64
	teachers func(round uint64) int       // that took part; nil for none
	spoil    func(a *pipeline.VoteAnswer) // nil for none
}

const crowdTeachers = 200

func newCrowd(t testing.TB, o Options, noise float64) *crowd {
	t.Helper()
	c := &crowd{noise: noise, options: o, rng: rand.New(rand.NewPCG(5, 5)), counts: []float64{300, 100},
		answers: map[uint64]*pipeline.VoteAnswer{}}
	c.real = studenttest.Teachers(crowdTeachers, studenttest.TableRecord, c.rng)
	var err error
	c.models, err = ensemble.New(ensemble.Spec{
		Models: crowdTeachers, Classes: 2, Input: nn.Vector(9), Layers: []nn.Spec{nn.Dense{Out: 1, Init: nn.Zeros}},
		Rate: o.Teacher.Rate, Decay: o.Teacher.Decay, Seed: 1,
	})
	testkit.Must(t, err)
	return c
}

func (o *crowd) tookPart(round uint64) int {
	if o.teachers == nil {
		return 0
	}
	return o.teachers(round)
}

func (o *crowd) ClassCounts(_ context.Context, round uint64, _ int) (*pipeline.CountAnswer, error) {
	return &pipeline.CountAnswer{Counts: o.counts, Paid: pipeline.Paid{Receipt: "counts", Teachers: o.tookPart(round)}},
		nil
}

func (o *crowd) Votes(_ context.Context, round uint64, q *pipeline.TeacherQuestion) (*pipeline.VoteAnswer, error) {
	o.asked = append(o.asked, q)
	if a, again := o.answers[round]; again {
		return a, nil
	}
	units, err := scaling.New(q.Training, q.TrainingClasses, q.Width, 2, []int{0, 1})
	if err != nil {
		return nil, err
	}
	examples := make([]ensemble.Examples, crowdTeachers)
	for t := range examples {
		for c, x := range o.real[t].ByClass {
			examples[t].ByClass = append(examples[t].ByClass, units.All(x, slices.Repeat([]int{c}, len(x)/q.Width)))
		}
	}
	if err := o.models.Train(examples, units.All(q.Training, q.TrainingClasses), q.TrainingClasses,
		o.options.Teacher.Steps, o.options.Teacher.Batch); err != nil {
		return nil, err
	}
	n := len(q.Classes)
	scores := make([]float32, crowdTeachers*n)
	if err := o.models.Score(scores, units.All(q.Records, q.Classes), q.Classes); err != nil {
		return nil, err
	}
	share := make([]float64, n)
	for t := range crowdTeachers {
		for c := range 2 {
			var own []float32
			for i, class := range q.Classes {
				if class == c {
					own = append(own, scores[t*n+i])
				}
			}
			slices.Sort(own)
			median := (own[(len(own)-1)/2] + own[len(own)/2]) / 2
			for i, class := range q.Classes {
				if class == c && scores[t*n+i] > median {
					share[i] += 1. / crowdTeachers
				}
			}
		}
	}
	a := &pipeline.VoteAnswer{Noise: o.noise, Paid: pipeline.Paid{Teachers: o.tookPart(round),
		EpsilonSpent: float64(round)}}
	for i := range share {
		if o.coin {
			share[i] = 0.5
		}
		a.Share = append(a.Share, float32(share[i]+o.noise*o.rng.NormFloat64()))
		a.Answered = append(a.Answered, true)
	}
	if o.spoil != nil {
		o.spoil(a)
	}
	o.answers[round] = a
	return a, nil
}

func testTrainer(t testing.TB, o Options, seed uint64) *Trainer {
	t.Helper()
	tr, err := New(o, studenttest.Table(t), 2, seed)
	testkit.Must(t, err)
	return tr
}

func run(t testing.TB, tr *Trainer, oracle Oracle, labels int) {
	t.Helper()
	testkit.Must(t, tr.Run(context.Background(), oracle, labels, studenttest.Nothing, studenttest.Unseen))
}

// ofVotes returns a case of a student with this many labels, and its crowd.
func ofVotes(t *testing.T, o Options, labels int) (studenttest.Case[*pipeline.TeacherQuestion], *crowd) {
	oracle := newCrowd(t, o, 0.05)
	return studenttest.Case[*pipeline.TeacherQuestion]{
		New:   func() studenttest.Trainer { return testTrainer(t, o, 1) },
		Asked: func() []*pipeline.TeacherQuestion { return oracle.asked },
		Run: func(tr studenttest.Trainer, keep func() error) error {
			return tr.(*Trainer).Run(t.Context(), oracle, labels, keep, studenttest.Unseen)
		},
	}, oracle
}
