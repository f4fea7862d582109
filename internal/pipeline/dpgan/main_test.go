package dpgan

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/conclave-dp/conclave/internal/discriminator"
	"github.com/conclave-dp/conclave/internal/nn"
	"github.com/conclave-dp/conclave/internal/nn/losses"
	"github.com/conclave-dp/conclave/internal/nn/scaling"
	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition/encode"
	"github.com/conclave-dp/conclave/partition/partitiontest"
)

func mustEncoder(t testing.TB, text string) *encode.Encoder {
	t.Helper()
	return encode.New(partitiontest.Schema(t, text))
}

func tableEncoder(t testing.TB) *encode.Encoder { return mustEncoder(t, partitiontest.Mixed) }

// imageEncoder is that of images of two classes.
func imageEncoder(t testing.TB) *encode.Encoder {
	t.Helper()
	return mustEncoder(t, `
name: images
label: label
format: idx
image: {height: 8, width: 8, channels: 1}
columns:
  - {name: label, kind: categorical, categories: [a, b]}
  - {name: pixel, kind: integer, lower: 0, upper: 255, repeat: 64}
`)
}

// tableRecord draws one of a class: the classes differ in every column.
func tableRecord(rng *rand.Rand, class int) []float32 {
	level := float32(0.3) + 0.4*float32(class)
	x := []float32{clip01(level + 0.08*float32(rng.NormFloat64())), clip01(level + 0.08*float32(rng.NormFloat64())), 0,
		0, 0, 0, 0}
	if rng.IntN(10) == 0 {
		x[1], x[2] = pipeline.EmptyNumber, 1
	}
	kind := class
	if rng.IntN(5) == 0 {
		kind = 2
	}
	x[3+kind] = 1
	if rng.Float32() < level {
		x[6] = 1
	}
	return x
}

// imageRecord draws an image whose upper or lower half is bright.
func imageRecord(rng *rand.Rand, class int) []float32 {
	x := make([]float32, 64)
	for i := range x {
		x[i] = 0.1 + 0.1*rng.Float32()
		if i/32 == class {
			x[i] += 0.7
		}
	}
	return x
}

func clip01(v float32) float32 { return min(1, max(0, v)) }

// smallOptions are set by hand, so that tests do not depend on the defaults, and keep a
// test short.
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

// climbOptions are those of a GAN.
func climbOptions() Options {
	o := smallOptions()
	o.Discriminator.Layers, o.Discriminator.Features, o.Discriminator.Classes = 1, "plain", "told"
	o.Discriminator.Optimizer, o.Discriminator.StepSize, o.Discriminator.StepEnd, o.Discriminator.Momentum = "adam",
		0.01, 0.01, 0.5
	o.Student.Follow, o.Student.Every, o.Student.Steps = Climb, 2, 3
	return o
}

// imageOptions are those of images of 8 x 8 pixels.
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

// pool answers for gradients with the records of all sites in one place: what the cluster
// computes, in floating point.
type pool struct {
	encoder *encode.Encoder
	options Options // chosen
	noise   float64 // the standard deviation of a number over the clip norm
	nothing bool    // leaves out all records

	x       []float32
	classes []int
	net     *discriminator.Discriminator
	seed    uint64
	asked   []*pipeline.DiscriminatorQuestion
	spoil   func(round uint64, a *pipeline.DiscriminatorAnswer) error
}

// newPool makes 600 records, a third of them of class 1, which record draws.
func newPool(t testing.TB, o Options, e *encode.Encoder, record func(*rand.Rand, int) []float32) *pool {
	t.Helper()
	p := &pool{encoder: e, options: o.ChosenFor(e), seed: 5}
	rng := rand.New(rand.NewPCG(6, 6))
	for i := range 600 {
		c := 0
		if i%3 == 0 {
			c = 1
		}
		p.x, p.classes = append(p.x, record(rng, c)...), append(p.classes, c)
	}
	var err error
	if p.net, err = discriminator.New(p.options.Spec(e, 2), rng); err != nil {
		t.Fatal(err)
	}
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
	w := p.encoder.Width()
	if q.Mean != nil {
		units, err := scaling.FromUnits(q.Mean, q.Scale, w, 2, p.encoder.Numbers())
		if err != nil {
			return nil, err
		}
		p.net.SetUnits(units)
	}
	// Draws are by the round, so that a round asked again has the same answer.
	rng := rand.New(rand.NewPCG(p.seed, round))
	var x []float32
	var classes, ones []int
	for i, c := range p.classes {
		if rng.Float64() < p.options.Rate && !p.nothing {
			x, classes, ones = append(x, p.x[i*w:(i+1)*w]...), append(classes, c), append(ones, 1)
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

func nothing() error             { return nil }
func unseen(_ pipeline.Progress) {}

// apart is how far a generator's records are from those of the pool, in the mean of each
// class: the largest difference of a column's mean.
func apart(p *pool, g *pipeline.Generator) float64 {
	w := g.Width()
	classes := pipeline.Balanced(2000, 2)
	x := make([]float32, len(classes)*w)
	g.Sample(x, classes, rand.New(rand.NewPCG(3, 3)))
	means := func(x []float32, classes []int) []float64 {
		sum, n := make([]float64, 2*w), make([]float64, 2)
		for i, c := range classes {
			n[c]++
			for j, v := range x[i*w : (i+1)*w] {
				sum[c*w+j] += float64(v)
			}
		}
		for k := range sum {
			sum[k] /= n[k/w]
		}
		return sum
	}
	worst, real := 0.0, means(p.x, p.classes)
	for k, v := range means(x, classes) {
		worst = math.Max(worst, math.Abs(v-real[k]))
	}
	return worst
}
