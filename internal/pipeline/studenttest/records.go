package studenttest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/conclave-dp/conclave/internal/embedding"
	"github.com/conclave-dp/conclave/internal/nn/ensemble"
	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/pipeline/embed"
	"github.com/conclave-dp/conclave/partition/encode"
	"github.com/conclave-dp/conclave/partition/partitiontest"
)

// Encoder returns the encoder of a schema.
func Encoder(t testing.TB, schema string) *encode.Encoder {
	t.Helper()
	return encode.New(partitiontest.Schema(t, schema))
}

// Table returns the encoder of the table that [TableRecord] draws from.
func Table(t testing.TB) *encode.Encoder { return Encoder(t, partitiontest.Mixed) }

// Images returns the encoder of images of two classes.
func Images(t testing.TB, height, width, channels int) *encode.Encoder {
	return Encoder(t, fmt.Sprintf(`
name: images
label: label
format: idx
image: {height: %d, width: %d, channels: %d}
columns:
  - {name: label, kind: categorical, categories: [a, b]}
  - {name: pixel, kind: integer, lower: 0, upper: 255, repeat: %d}
`, height, width, channels, height*width*channels))
}

// Record draws a record of a class.
type Record func(rng *rand.Rand, class int) []float32

// TableRecord draws a record of partitiontest.Mixed. In class 0 column a lies around 0.25, c is mostly x and d
// mostly 0; in class 1 a lies around 0.75, c is mostly z and d mostly 1. b is independent of the class, and
// empty in a quarter of the records.
func TableRecord(rng *rand.Rand, class int) []float32 {
	r := make([]float32, 7)
	r[0] = float32(math.Min(1, math.Max(0, 0.25+0.5*float64(class)+0.1*rng.NormFloat64())))
	r[1] = rng.Float32()
	if rng.IntN(4) == 0 {
		r[1], r[2] = pipeline.EmptyNumber, 1
	}
	category := 2 * class
	if u := rng.IntN(10); u < 3 {
		category = 1
	} else if u == 3 {
		category = 2 - category
	}
	r[3+category] = 1
	r[6] = float32(class)
	if rng.IntN(10) == 0 {
		r[6] = 1 - r[6]
	}
	return r
}

// LevelRecord draws a record of partitiontest.Mixed in which every column depends on the class.
func LevelRecord(rng *rand.Rand, class int) []float32 {
	level := float32(0.3) + 0.4*float32(class)
	number := func() float32 { return min(1, max(0, level+0.08*float32(rng.NormFloat64()))) }
	r := []float32{number(), number(), 0, 0, 0, 0, 0}
	if rng.IntN(10) == 0 {
		r[1], r[2] = pipeline.EmptyNumber, 1
	}
	kind := class
	if rng.IntN(5) == 0 {
		kind = 2
	}
	r[3+kind] = 1
	if rng.Float32() < level {
		r[6] = 1
	}
	return r
}

// ImageRecord draws an image of 8 x 8 pixels. In class 0 the left half is bright, in class 1 the upper half.
func ImageRecord(rng *rand.Rand, class int) []float32 {
	x := make([]float32, 64)
	for i := range x {
		v := 0.1
		if class == 0 && i%8 < 4 || class == 1 && i/8 < 4 {
			v = 0.9
		}
		x[i] = float32(math.Min(1, math.Max(0, v+0.05*rng.NormFloat64())))
	}
	return x
}

// Teachers draws the records of n teachers, 8 each.
func Teachers(n int, record Record, rng *rand.Rand) (all []ensemble.Examples) {
	for range n {
		of := ensemble.Examples{ByClass: make([][]float32, 2)}
		for i := range 8 {
			of.ByClass[i%2] = append(of.ByClass[i%2], record(rng, i%2)...)
		}
		all = append(all, of)
	}
	return all
}

// Records are records in one place. They answer for an embedding, and refuse class counts.
type Records struct {
	T       testing.TB
	Encoder *encode.Encoder
	X       []float32 // encoded, shape [len(Classes), Encoder.Width()]
	Classes []int
	// Rounds are the rounds in which the embedding was asked. Spoil changes its answer.
	Rounds []uint64
	Spoil  func(*embed.Answer) error
}

// NewRecords draws 600 records. With two classes, a third are of class 1.
func NewRecords(t testing.TB, e *encode.Encoder, classes int, record Record) *Records {
	all, rng := &Records{T: t, Encoder: e}, rand.New(rand.NewPCG(6, 6))
	for i := range 600 {
		class := 0
		if classes > 1 && i%3 == 0 {
			class = 1
		}
		all.X, all.Classes = append(all.X, record(rng, class)...), append(all.Classes, class)
	}
	return all
}

// OfTeachers returns the records of all teachers.
func OfTeachers(t testing.TB, e *encode.Encoder, teachers []ensemble.Examples) *Records {
	all := &Records{T: t, Encoder: e}
	for _, of := range teachers {
		for class, x := range of.ByClass {
			all.X = append(all.X, x...)
			all.Classes = append(all.Classes, slices.Repeat([]int{class}, len(x)/e.Width())...)
		}
	}
	return all
}

func (o *Records) ClassCounts(context.Context, uint64, int) (*pipeline.CountAnswer, error) {
	o.T.Error("the class counts were asked")
	return nil, errors.New("no class counts")
}

func (o *Records) Embedding(_ context.Context, round uint64, q *embed.Question) (*embed.Answer, error) {
	o.Rounds = append(o.Rounds, round)
	f, err := embedding.New(o.Encoder, q.Classes, q.Parts)
	if err != nil {
		return nil, err
	}
	if q.Entries != q.Classes*f.Count() || q.Norm != f.Norm() {
		return nil, fmt.Errorf("a question of %d entries and norm %v, want %d, %v", q.Entries, q.Norm,
			q.Classes*f.Count(), f.Norm())
	}
	sum := make([]float64, q.Entries)
	f.Sum(sum, o.X, o.Classes)
	rng := rand.New(rand.NewPCG(9, round))
	a := &embed.Answer{Noise: q.Norm, Paid: pipeline.Paid{Receipt: "embedding", Teachers: 10, EpsilonSpent: 0.25}}
	for _, v := range sum {
		a.Sum = append(a.Sum, float32(v+a.Noise*rng.NormFloat64()))
	}
	if o.Spoil != nil {
		return a, o.Spoil(a)
	}
	return a, nil
}

// Means returns the mean of each feature of a generator's records of a class.
func Means(g *pipeline.Generator, class int) []float64 {
	const n = 2000
	x, classes := make([]float32, n*g.Width()), slices.Repeat([]int{class}, n)
	g.Sample(x, classes, rand.New(rand.NewPCG(1, 2)))
	return means(x, classes, class, g.Width())
}

func means(x []float32, classes []int, class, width int) []float64 {
	sum, n := make([]float64, width), 0.0
	for i, c := range classes {
		if c == class {
			n++
			for j, v := range x[i*width : (i+1)*width] {
				sum[j] += float64(v)
			}
		}
	}
	for j := range sum {
		sum[j] /= n
	}
	return sum
}

// Apart is how far a generator's records are from these: the largest difference of a feature's mean in a class.
func (o *Records) Apart(g *pipeline.Generator, classes int) (worst float64) {
	for c := range classes {
		real := means(o.X, o.Classes, c, g.Width())
		for j, made := range Means(g, c) {
			worst = math.Max(worst, math.Abs(made-real[j]))
		}
	}
	return worst
}
