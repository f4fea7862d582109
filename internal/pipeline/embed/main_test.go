package embed_test

import (
	"math/rand/v2"
	"testing"

	"github.com/conclave-dp/conclave/internal/pipeline/embed"
	"github.com/conclave-dp/conclave/internal/pipeline/studenttest"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition/encode"
)

const (
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

// smallOptions are set by hand, so that tests are short and do not depend on the defaults.
func smallOptions() embed.Options {
	o := embed.DefaultOptions()
	o.Features = embed.Features{Count: 0.3, Columns: 1, Pairs: 1, Bins: 6, MostPairs: 50, Fourier: 1, Waves: 30,
		Scales: []float64{1.25}}
	o.Fit = embed.Fit{Steps: 40, Batch: 64, StepSize: 5e-3, StepEnd: 1e-3, Memory: 0.8, Average: 0.9}
	o.Student = embed.Student{Generator: "dense", Noise: 6, Hidden: 16, Layers: 2}
	return o
}

// imageOptions are the options for images of 8 x 8 pixels.
func imageOptions() embed.Options {
	o := smallOptions()
	o.Features.Columns, o.Features.Pairs, o.Features.Scales = 0, 0, []float64{3, 6}
	o.Features.Patches, o.Features.PatchWaves = 1, 6
	return o
}

// unlabelledRecord draws one of two groups that no label separates.
func unlabelledRecord(rng *rand.Rand, _ int) []float32 {
	if rng.IntN(4) == 0 {
		return []float32{0.1 + 0.05*rng.Float32(), 1, 0, 0}
	}
	return []float32{0.7 + 0.1*rng.Float32(), 0, 0, 1}
}

func oneNumber(rng *rand.Rand, _ int) []float32 { return []float32{0.6 + 0.2*rng.Float32()} }

// variant is a kind of data, with options and records of it.
type variant struct {
	e       *encode.Encoder
	o       embed.Options
	classes int
	record  studenttest.Record
}

func variants(t testing.TB) map[string]variant {
	waves := smallOptions()
	waves.Features.Columns, waves.Features.Pairs = 0, 0
	forgetful := smallOptions()
	forgetful.Fit.Memory, forgetful.Fit.Average = 0, 0
	convolution := imageOptions()
	convolution.Student.Generator, convolution.Student.Hidden, convolution.Student.Warp = "convolution", 4, 0.5
	table, images := studenttest.Table(t), studenttest.Images(t, 8, 8, 1)
	return map[string]variant{
		"a table":        {table, smallOptions(), 2, studenttest.LevelRecord},
		"waves alone":    {table, waves, 2, studenttest.LevelRecord},
		"without memory": {table, forgetful, 2, studenttest.LevelRecord},
		"no label":       {studenttest.Encoder(t, unlabelledSchema), smallOptions(), 1, unlabelledRecord},
		"one column":     {studenttest.Encoder(t, oneColumnSchema), smallOptions(), 1, oneNumber},
		"images":         {images, imageOptions(), 2, studenttest.ImageRecord},
		"convolutions":   {images, convolution, 2, studenttest.ImageRecord},
	}
}

// mustTrain makes a student with its start.
func mustTrain(t testing.TB, v variant, oracle embed.Oracle, seed uint64) *embed.Trainer {
	t.Helper()
	tr, err := embed.New(v.o, v.e, v.classes, seed)
	testkit.Must(t, err)
	s, err := embed.NewStart(v.o, v.e, v.classes, 1, oracle, unwatched)
	testkit.Must(t, err)
	tr.StartWith(s)
	return tr
}

func unwatched(_, _ int) {}

// own returns records of the variant.
func (v variant) own(t testing.TB) *studenttest.Records {
	return studenttest.NewRecords(t, v.e, v.classes, v.record)
}

// of is a case of the variant.
func (v variant) of(t testing.TB) studenttest.Case[uint64] {
	oracle := v.own(t)
	return studenttest.Case[uint64]{
		New:   func() studenttest.Trainer { return mustTrain(t, v, oracle, 1) },
		Asked: func() []uint64 { return oracle.Rounds },
		Run: func(tr studenttest.Trainer, keep func() error) error {
			return tr.(*embed.Trainer).Run(t.Context(), keep)
		},
	}
}
