package embed_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/conclave-dp/conclave/internal/embedding"
	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/pipeline/embed"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition/encode"
	"github.com/conclave-dp/conclave/partition/partitiontest"
)

const (
	tableSchema = partitiontest.Mixed
	imageSchema = `
name: images
label: label
format: idx
image: {height: 8, width: 8, channels: 1}
columns:
  - {name: label, kind: categorical, categories: [a, b]}
  - {name: pixel, kind: integer, lower: 0, upper: 255, repeat: 64}
`
	unlabelledSchema = `
name: nolabel
columns:
  - {name: a, kind: continuous, lower: 0, upper: 1}
  - {name: c, kind: categorical, categories: [x, y, z]}
`
	oneColumnSchema = `
name: one
columns:
  - {name: a, kind: continuous, lower: 0, upper: 1}
`
)

func encoderOf(t testing.TB, text string) *encode.Encoder {
	t.Helper()
	return encode.New(partitiontest.Schema(t, text))
}

// smallOptions are set by hand, so that tests do not depend on the defaults, and keep a
// test short.
func smallOptions() embed.Options {
	o := embed.DefaultOptions()
	o.Features = embed.Features{Count: 0.3, Columns: 1, Pairs: 1, Bins: 6, MostPairs: 50, Fourier: 1, Waves: 30,
		Scales: []float64{1.25}}
	o.Fit = embed.Fit{Steps: 40, Batch: 64, StepSize: 5e-3, StepEnd: 1e-3, Memory: 0.8, Average: 0.9}
	o.Student = embed.Student{Generator: "dense", Noise: 6, Hidden: 16, Layers: 2}
	return o
}

// imageOptions are those of images of 8 x 8 pixels.
func imageOptions() embed.Options {
	o := smallOptions()
	o.Features.Columns, o.Features.Pairs, o.Features.Scales = 0, 0, []float64{3, 6}
	return o
}

// pool answers for embeddings with all records in one place, in floating point.
type pool struct {
	e       *encode.Encoder
	x       []float32
	classes []int
	noise   float64 // the noise multiplier
	seed    uint64
	asked   int
	rounds  []uint64
	spoil   func(a *embed.Answer)
	err     error
}

// newPool makes n records of so many classes.
func newPool(e *encode.Encoder, n, classes int, record func(rng *rand.Rand, class int) []float32) *pool {
	p := &pool{e: e, seed: 5, noise: 1}
	rng := rand.New(rand.NewPCG(6, 6))
	for i := range n {
		class := 0
		if classes > 1 && i%3 == 0 {
			class = 1
		}
		p.x, p.classes = append(p.x, record(rng, class)...), append(p.classes, class)
	}
	return p
}

func (p *pool) Embedding(_ context.Context, round uint64, q *embed.Question) (*embed.Answer, error) {
	p.asked++
	p.rounds = append(p.rounds, round)
	if p.err != nil {
		return nil, p.err
	}
	f, err := embedding.New(p.e, q.Classes, q.Parts)
	if err != nil {
		return nil, err
	}
	if q.Entries != q.Classes*f.Count() || q.Norm != f.Norm() {
		return nil, fmt.Errorf("a question of %d entries and norm %v, want %d, %v", q.Entries, q.Norm,
			q.Classes*f.Count(), f.Norm())
	}
	sum := make([]float64, q.Entries)
	f.Sum(sum, p.x, p.classes)
	rng := rand.New(rand.NewPCG(p.seed, round))
	a := &embed.Answer{Noise: p.noise * q.Norm, Paid: pipeline.Paid{Receipt: "embedding", Teachers: 10,
		EpsilonSpent: 0.7}}
	for _, v := range sum {
		a.Sum = append(a.Sum, float32(v+a.Noise*rng.NormFloat64()))
	}
	if p.spoil != nil {
		p.spoil(a)
	}
	return a, nil
}

// tableRecord draws one of a class: the classes differ in every column.
func tableRecord(rng *rand.Rand, class int) []float32 {
	level := float32(0.3) + 0.4*float32(class)
	number := func() float32 { return min(1, max(0, level+0.08*float32(rng.NormFloat64()))) }
	x := []float32{number(), number(), 0, 0, 0, 0, 0}
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

// unlabelledRecord draws one of two groups that no label tells apart.
func unlabelledRecord(rng *rand.Rand, _ int) []float32 {
	if rng.IntN(4) == 0 {
		return []float32{0.1 + 0.05*rng.Float32(), 1, 0, 0}
	}
	return []float32{0.7 + 0.1*rng.Float32(), 0, 0, 1}
}

func oneNumber(rng *rand.Rand, _ int) []float32 { return []float32{0.6 + 0.2*rng.Float32()} }

// variant is a kind of data, with options and records of it.
type variant struct {
	schema  string
	o       embed.Options
	classes int
	record  func(*rand.Rand, int) []float32
}

func variants() map[string]variant {
	waves := smallOptions()
	waves.Features.Columns, waves.Features.Pairs = 0, 0
	forgetful := smallOptions()
	forgetful.Fit.Memory, forgetful.Fit.Average = 0, 0
	convolution := imageOptions()
	convolution.Student.Generator, convolution.Student.Hidden, convolution.Student.Warp = "convolution", 4, 0.5
	return map[string]variant{
		"a table":        {tableSchema, smallOptions(), 2, tableRecord},
		"waves alone":    {tableSchema, waves, 2, tableRecord},
		"without memory": {tableSchema, forgetful, 2, tableRecord},
		"no label":       {unlabelledSchema, smallOptions(), 1, unlabelledRecord},
		"one column":     {oneColumnSchema, smallOptions(), 1, oneNumber},
		"images":         {imageSchema, imageOptions(), 2, imageRecord},
		"convolutions":   {imageSchema, convolution, 2, imageRecord},
	}
}

// mustTrain makes a student with its start.
func mustTrain(t testing.TB, v variant, oracle embed.Oracle, seed uint64) *embed.Trainer {
	t.Helper()
	e := encoderOf(t, v.schema)
	tr, err := embed.New(v.o, e, v.classes, seed)
	testkit.Must(t, err)
	s, err := embed.NewStart(v.o, e, v.classes, 1, oracle, unwatched)
	testkit.Must(t, err)
	tr.StartWith(s)
	return tr
}

func nothing() error     { return nil }
func unwatched(_, _ int) {}
func (v variant) n() int { return 600 }
func (v variant) own(t testing.TB) *pool {
	return newPool(encoderOf(t, v.schema), v.n(), v.classes, v.record)
}

// apart is how far a generator's records are from those of the pool: the largest difference
// of a feature's mean in a class.
func apart(p *pool, g *pipeline.Generator, classes int) float64 {
	w := g.Width()
	made := pipeline.Balanced(4000, classes)
	x := make([]float32, len(made)*w)
	g.Sample(x, made, rand.New(rand.NewPCG(3, 3)))
	means := func(x []float32, of []int) []float64 {
		sum, n := make([]float64, classes*w), make([]float64, classes)
		for i, c := range of {
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
	for k, v := range means(x, made) {
		worst = math.Max(worst, math.Abs(v-real[k]))
	}
	return worst
}
