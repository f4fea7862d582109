package pategan

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/conclave-dp/conclave/internal/nn"
	"github.com/conclave-dp/conclave/internal/nn/ensemble"
	"github.com/conclave-dp/conclave/internal/nn/scaling"
	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition/encode"
	"github.com/conclave-dp/conclave/partition/partitiontest"
)

func testEncoder(t testing.TB) *encode.Encoder {
	t.Helper()
	return encode.New(partitiontest.Schema(t, partitiontest.Mixed))
}

// smallOptions keep a test short; the race detector makes training some thirty
// times slower.
func smallOptions() Options {
	o := DefaultOptions()
	o.Queries, o.Teacher.Training = 16, 8
	o.Student.Noise, o.Student.Hidden = 4, 16
	o.Student.GeneratorSteps = 3
	return o
}

// crowd answers votes with real teachers on made-up records, and normal noise
// on the shares. In class 0 column a lies around 0.25, c is mostly x and d
// mostly 0; in class 1 a lies around 0.75, c is mostly z and d mostly 1. b says
// nothing and is empty in a quarter of the records.
type crowd struct {
	noise   float64
	coin    bool
	options Options
	asked   []*pipeline.VoteQuestion
	real    []ensemble.Examples
	numbers []int
	models  *ensemble.Ensemble
	rng     *rand.Rand
}

const crowdTeachers = 200

func newCrowd(t testing.TB, o Options, noise float64) *crowd {
	t.Helper()
	c := &crowd{noise: noise, options: o, numbers: []int{0, 1}, rng: rand.New(rand.NewPCG(5, 5))}
	for range crowdTeachers {
		e := ensemble.Examples{ByClass: make([][]float32, 2)}
		for i := range 8 {
			e.ByClass[i%2] = append(e.ByClass[i%2], c.record(i%2)...)
		}
		c.real = append(c.real, e)
	}
	var err error
	c.models, err = ensemble.New(ensemble.Spec{
		Models: crowdTeachers, Classes: 2, Input: nn.Vector(9), Layers: []nn.Spec{nn.Dense{Out: 1, Init: nn.Zeros}},
		Rate: o.Teacher.Rate, Decay: o.Teacher.Decay, Seed: 1,
	})
	testkit.Must(t, err)
	return c
}

func (o *crowd) record(class int) []float32 {
	r := make([]float32, 7)
	r[0] = float32(math.Min(1, math.Max(0, 0.25+0.5*float64(class)+0.1*o.rng.NormFloat64())))
	r[1] = o.rng.Float32()
	if o.rng.IntN(4) == 0 {
		r[1], r[2] = pipeline.EmptyNumber, 1
	}
	category := 2 * class
	if u := o.rng.IntN(10); u < 3 {
		category = 1
	} else if u == 3 {
		category = 2 - category
	}
	r[3+category] = 1
	r[6] = float32(class)
	if o.rng.IntN(10) == 0 {
		r[6] = 1 - r[6]
	}
	return r
}

func (o *crowd) ClassCounts(context.Context, uint64, int) (*pipeline.CountAnswer, error) {
	return &pipeline.CountAnswer{Counts: []float64{300, 100}, Paid: pipeline.Paid{Receipt: "counts"}}, nil
}

func (o *crowd) Votes(_ context.Context, round uint64, q *pipeline.VoteQuestion) (*pipeline.VoteAnswer, error) {
	o.asked = append(o.asked, q)
	units, err := scaling.New(q.Training, q.TrainingClasses, q.Width, 2, o.numbers)
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
	n := len(q.QueryClasses)
	scores := make([]float32, crowdTeachers*n)
	if err := o.models.Score(scores, units.All(q.Queries, q.QueryClasses), q.QueryClasses); err != nil {
		return nil, err
	}
	share := make([]float64, n)
	for t := range crowdTeachers {
		for c := range 2 {
			var own []float32
			for i, class := range q.QueryClasses {
				if class == c {
					own = append(own, scores[t*n+i])
				}
			}
			slices.Sort(own)
			median := (own[(len(own)-1)/2] + own[len(own)/2]) / 2
			for i, class := range q.QueryClasses {
				if class == c && scores[t*n+i] > median {
					share[i] += 1. / crowdTeachers
				}
			}
		}
	}
	a := &pipeline.VoteAnswer{Paid: pipeline.Paid{EpsilonSpent: float64(round)}, Noise: o.noise}
	for i := range share {
		if o.coin {
			share[i] = 0.5
		}
		a.Share = append(a.Share, float32(share[i]+o.noise*o.rng.NormFloat64()))
		a.Answered = append(a.Answered, true)
	}
	return a, nil
}

func testTrainer(t testing.TB, o Options, seed uint64) *Trainer {
	t.Helper()
	tr, err := New(o, testEncoder(t), 2, seed)
	testkit.Must(t, err)
	return tr
}

func nothing() error { return nil }

// means draws from g and returns the mean of each column in class c.
func means(g *pipeline.Generator, c int) []float64 {
	const n = 2000
	x := make([]float32, n*g.Width())
	g.Sample(x, slices.Repeat([]int{c}, n), rand.New(rand.NewPCG(1, 2)))
	m := make([]float64, g.Width())
	for i, v := range x {
		m[i%g.Width()] += float64(v) / n
	}
	return m
}
