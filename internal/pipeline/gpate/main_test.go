package gpate

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/conclave-dp/conclave/internal/nn"
	"github.com/conclave-dp/conclave/internal/nn/ensemble"
	"github.com/conclave-dp/conclave/internal/nn/scaling"
	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/pipeline/studenttest"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition/encode"
	"github.com/conclave-dp/conclave/projection"
)

// smallOptions are set by hand, so that tests are short and do not depend on the defaults.
func smallOptions() Options {
	o := DefaultOptions()
	o.Rounds, o.Records, o.Bins, o.Clip, o.Mechanism = 4, 12, 10, 1e-4, "confident-gnmax"
	o.Teacher = Teacher{Model: "logistic", Hidden: 8, Networks: "each", Features: "standard", Cosines: 3, Memory: "run",
		Steps: 5, Batch: 16, Training: 16, Rate: 0.1, Decay: 0.1}
	o.Student = Student{Generator: "dense", Noise: 4, Hidden: 16, Layers: 2, Follow: Tilt, Step: 0.5, StepEnd: 0.5,
		GeneratorSteps: 3, GeneratorRate: 2e-3, Average: 0.9}
	return o
}

// movedOptions are the options of a student that begins at once. A student that tilts is first fitted to the
// ranges.
func movedOptions() Options {
	o := smallOptions()
	o.Student.Follow, o.Student.Step = Move, 0.3
	return o
}

// imageOptions are the options for images of 8 x 8 pixels.
func imageOptions() Options {
	o := smallOptions()
	o.Teacher.Model, o.Teacher.Features, o.Teacher.Memory, o.Teacher.Rate, o.Teacher.Decay = "hidden", "cosines",
		"round", 0.01, 0
	o.Student.Follow, o.Student.Step, o.Student.StepEnd = Move, 1.5, 0.5
	return o
}

func mustNew(t testing.TB, o Options, e *encode.Encoder, seed uint64) *Trainer {
	t.Helper()
	tr, err := New(o, e, 2, seed)
	testkit.Must(t, err)
	return tr
}

func run(t testing.TB, tr *Trainer, oracle Oracle, rounds int) {
	t.Helper()
	testkit.Must(t, tr.Run(context.Background(), oracle, rounds, studenttest.Nothing, studenttest.Unseen))
}

// crowd answers for gradients with real teachers on made-up records. A repeated round gets the same answer.
type crowd struct {
	encoder  *encode.Encoder
	options  Options // chosen
	teachers int
	// noise is the standard deviation of the noise of a number, relative to a vector of
	// length 1, or of a count.
	noise float64
	coin  bool

	real    []ensemble.Examples
	models  *ensemble.Ensemble
	asked   []*pipeline.TeacherQuestion
	answers map[uint64]*pipeline.GradientAnswer
	spoil   func(round uint64, a *pipeline.GradientAnswer) error
}

// newCrowd makes teachers of 8 records each with record.
func newCrowd(t testing.TB, o Options, e *encode.Encoder, teachers int, record studenttest.Record) *crowd {
	t.Helper()
	o = o.ChosenFor(e)
	in, layers := o.Seen(e), []nn.Spec{nn.Dense{Out: 1, Init: nn.Zeros}}
	if o.Teacher.Features == "standard" {
		in += len(e.Numbers())
	}
	if o.Teacher.Model == "hidden" {
		layers = append([]nn.Spec{nn.Dense{Out: o.Teacher.Hidden}, nn.LeakyReLU(0.2)}, layers...)
	}
	models, err := ensemble.New(ensemble.Spec{
		Models: teachers, Classes: 2, Input: nn.Vector(in), Layers: layers, Rate: o.Teacher.Rate,
		Decay: o.Teacher.Decay,
		Seed:  1, Fresh: o.Teacher.Memory == "round", Start: 2,
	})
	testkit.Must(t, err)
	return &crowd{encoder: e, options: o, teachers: teachers, models: models,
		answers: map[uint64]*pipeline.GradientAnswer{},
		real:    studenttest.Teachers(teachers, record, rand.New(rand.NewPCG(5, 5)))}
}

func (o *crowd) ClassCounts(context.Context, uint64, int) (*pipeline.CountAnswer, error) {
	return &pipeline.CountAnswer{Counts: []float64{300, 100}, Paid: pipeline.Paid{Receipt: "counts",
			Teachers: o.teachers}},
		nil
}

// see converts records into the features that teachers see.
func (o *crowd) see(x []float32, classes []int, units *scaling.Scaler) []float32 {
	switch {
	case units != nil:
		return units.All(x, classes)
	case o.options.Teacher.Features == "cosines":
		image := o.encoder.Image()
		basis, err := projection.NewCosines(image.Height, image.Width, image.Channels, o.options.Teacher.Cosines)
		if err != nil {
			panic(err)
		}
		out := make([]float32, len(classes)*o.options.Seen(o.encoder))
		basis.Project(out, x, len(classes))
		return out
	}
	return x
}

func (o *crowd) Gradients(_ context.Context, round uint64, q *pipeline.TeacherQuestion) (*pipeline.GradientAnswer,
	error) {
	o.asked = append(o.asked, q)
	if a, again := o.answers[round]; again {
		return a, nil
	}
	rng := rand.New(rand.NewPCG(6, round))
	opts, seen, n := o.options, o.options.Seen(o.encoder), len(q.Classes)
	var units *scaling.Scaler
	if opts.Teacher.Features == "standard" {
		var err error
		if units, err = scaling.New(q.Training, q.TrainingClasses, q.Width, 2, o.encoder.Numbers()); err != nil {
			return nil, err
		}
	}
	examples := make([]ensemble.Examples, o.teachers)
	for t := range examples {
		for c, x := range o.real[t].ByClass {
			examples[t].ByClass = append(examples[t].ByClass, o.see(x, slices.Repeat([]int{c}, len(x)/q.Width), units))
		}
	}
	var p *projection.Projection
	if opts.projects(seen) {
		var err error
		if p, err = projection.New(opts.projected(seen), q.Seed); err != nil {
			return nil, err
		}
	}
	queries := o.see(q.Records, q.Classes, units)
	a := &pipeline.GradientAnswer{Noise: o.noise, Paid: pipeline.Paid{Receipt: fmt.Sprint("round ", round),
		Teachers: o.teachers, EpsilonSpent: float64(round)}}
	sum, counts := make([]float64, n*opts.Directions), make([]float64, n*opts.Directions*opts.Bins)
	var mu sync.Mutex
	err := o.models.TrainGradients(examples, o.see(q.Training, q.TrainingClasses, units), q.TrainingClasses,
		opts.Teacher.Steps, opts.Teacher.Batch,
		queries, q.Classes, nil, func(teacher int, dx []float32) {
			steps := make([]float32, n*seen)
			in := len(dx) / n
			for i := range n {
				for j := range seen {
					steps[i*seen+j] = -dx[i*in+j]
				}
				if units != nil {
					for k, j := range o.encoder.Numbers() {
						steps[i*seen+j] -= dx[i*in+seen+k] * scaling.SquareSlope(queries[i*in+j])
					}
				}
			}
			if p != nil {
				projected := make([]float32, n*opts.Directions)
				p.Project(projected, steps, n)
				steps = projected
			}
			mu.Lock()
			defer mu.Unlock()
			if opts.Answers != Sum {
				bins := make([]uint8, len(steps))
				p.Discretize(bins, steps, teacher)
				for i, bin := range bins {
					if o.coin {
						bin = uint8(rng.IntN(opts.Bins))
					}
					counts[i*opts.Bins+int(bin)]++
				}
				return
			}
			var length float64
			for i, v := range steps {
				if o.coin {
					steps[i] = float32(rng.NormFloat64())
					v = steps[i]
				}
				length += float64(v) * float64(v)
			}
			if length > 0 {
				for i, v := range steps {
					sum[i] += float64(v) / math.Sqrt(length)
				}
			}
		})
	if err != nil {
		return nil, err
	}
	if opts.Answers == Sum {
		for _, v := range sum {
			a.Sum = append(a.Sum, float32(v/float64(o.teachers)+o.noise*rng.NormFloat64()))
		}
	} else {
		for i := range counts {
			counts[i] += o.noise * rng.NormFloat64()
		}
		for i := range len(counts) / opts.Bins {
			of := counts[i*opts.Bins : (i+1)*opts.Bins]
			a.Winners = append(a.Winners, slices.Index(of, slices.Max(of)))
		}
		if opts.Answers == Histogram {
			a.Histogram = counts
		}
	}
	if o.spoil != nil {
		return a, o.spoil(round, a)
	}
	o.answers[round] = a
	return a, nil
}
