package dpgan

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/conclave-dp/conclave/internal/discriminator"
	"github.com/conclave-dp/conclave/internal/nn"
	"github.com/conclave-dp/conclave/internal/nn/losses"
	"github.com/conclave-dp/conclave/internal/nn/scaling"
	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/pipeline/studenttest"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition/encode"
)

// smallOptions are set by hand, so that tests are short and do not depend on the defaults.
func smallOptions() Options {
	o := DefaultOptions()
	o.Steps, o.Rate, o.Clip = 20, 0.5, 3
	o.Discriminator = Discriminator{
		Kind: "dense", Hidden: 16, Classes: "each", Features: "standard", Cosines: 4, Loss: Logistic,
		Optimizer: "sgd", StepSize: 1, StepEnd: 0.2, Reuse: 1, Generated: 256,
	}
	o.Student = Student{
		Generator: "dense", Noise: 4, Hidden: 16, Layers: 2, Follow: Tilt, Every: 1, Steps: 10, Batch: 64,
		StepSize: 3e-3, StepEnd: 3e-3, Average: 0.9, Keep: 4,
	}
	return o
}

// climbOptions are the options of a GAN.
func climbOptions() Options {
	o := smallOptions()
	o.Discriminator.Layers, o.Discriminator.Features, o.Discriminator.Classes = 1, "plain", "told"
	o.Discriminator.Optimizer, o.Discriminator.StepSize, o.Discriminator.StepEnd, o.Discriminator.Momentum = "adam",
		0.01, 0.01, 0.5
	o.Student.Follow, o.Student.Every, o.Student.Steps = Climb, 2, 3
	return o
}

// imageOptions are the options for images of 8 x 8 pixels.
func imageOptions() Options {
	o := climbOptions()
	o.Discriminator.Kind, o.Discriminator.Hidden, o.Discriminator.Layers = "convolution", 4, 2
	return o
}

func mustNew(t testing.TB, o Options, e *encode.Encoder, seed uint64) *Trainer {
	t.Helper()
	tr, err := New(o, e, 2, seed)
	testkit.Must(t, err)
	return tr
}

func run(t testing.TB, tr *Trainer, oracle Oracle, steps int) {
	t.Helper()
	testkit.Must(t, tr.Run(context.Background(), oracle, steps, studenttest.Nothing, studenttest.Unseen))
}

// pool answers for gradients with the records of all sites in one place. It computes in floating point what the
// cluster computes.
type pool struct {
	*studenttest.Records
	options Options // chosen
	noise   float64 // the standard deviation of a number over the clip norm
	nothing bool    // leaves out all records

	net   *discriminator.Discriminator
	seed  uint64
	asked []*pipeline.DiscriminatorQuestion
	spoil func(round uint64, a *pipeline.DiscriminatorAnswer) error
}

// newPool makes 600 records with record, a third of them of class 1.
func newPool(t testing.TB, o Options, e *encode.Encoder, record studenttest.Record) *pool {
	t.Helper()
	p := &pool{Records: studenttest.NewRecords(t, e, 2, record), options: o.ChosenFor(e), seed: 5}
	var err error
	p.net, err = discriminator.New(p.options.Spec(e, 2), rand.New(rand.NewPCG(6, 6)))
	testkit.Must(t, err)
	return p
}

func (p *pool) ClassCounts(context.Context, uint64, int) (*pipeline.CountAnswer, error) {
	return &pipeline.CountAnswer{Counts: []float64{400, 200}, Paid: pipeline.Paid{Receipt: "counts", Teachers: 10}}, nil
}

func (p *pool) Discriminator(_ context.Context, round uint64,
	q *pipeline.DiscriminatorQuestion) (*pipeline.DiscriminatorAnswer, error) {
	p.asked = append(p.asked, q)
	if err := p.net.SetWeights(q.Weights); err != nil {
		return nil, err
	}
	w := p.Encoder.Width()
	if q.Mean != nil {
		units, err := scaling.FromUnits(q.Mean, q.Scale, w, 2, p.Encoder.Numbers())
		if err != nil {
			return nil, err
		}
		p.net.SetUnits(units)
	}
	// The draws depend on the round, so that a repeated round has the same answer.
	rng := rand.New(rand.NewPCG(p.seed, round))
	var x []float32
	var classes, ones []int
	for i, c := range p.Classes {
		if rng.Float64() < p.options.Rate && !p.nothing {
			x, classes, ones = append(x, p.X[i*w:(i+1)*w]...), append(classes, c), append(ones, 1)
		}
	}
	const bound = 1 << 16
	steps, err := nn.NewClippedSteps(p.net.Net, p.options.Clip, bound)
	if err != nil {
		return nil, err
	}
	loss := losses.Logistic
	if p.options.Discriminator.Loss != Logistic {
		loss = losses.Wasserstein
	}
	if err := steps.Add(p.net.Inputs(nil, x, classes), ones, p.net.Heads(classes), loss); err != nil {
		return nil, err
	}
	a := &pipeline.DiscriminatorAnswer{Noise: p.noise * p.options.Clip, Share: 1,
		Paid: pipeline.Paid{Receipt: fmt.Sprint("round ", round), Teachers: 10, EpsilonSpent: float64(round)}}
	for _, v := range steps.Sum() {
		a.Sum = append(a.Sum, float32(p.options.Clip*(float64(v)/bound+p.noise*rng.NormFloat64())))
	}
	if p.spoil != nil {
		return a, p.spoil(round, a)
	}
	return a, nil
}
