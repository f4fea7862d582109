package labels

import (
	"math"
	"math/rand/v2"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/internal/nn/safetensors"
	"github.com/conclave-dp/conclave/internal/question/questiontest"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/encode"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// schemaText has numbers, categories and empty cells, and a class that no record has.
const schemaText = `columns:
  - {name: a, kind: continuous, lower: 0, upper: 10}
  - {name: b, kind: continuous, lower: -1, upper: 1, nullable: true}
  - {name: c, kind: categorical, categories: [u, v, w]}
  - {name: y, kind: categorical, categories: [p, q, none]}
label: y
`

func cells(rng *rand.Rand) []float64 {
	of := []float64{10 * rng.Float64(), 2*rng.Float64() - 1, float64(rng.IntN(3)), float64(rng.IntN(2))}
	if rng.IntN(5) == 0 {
		of[1] = math.NaN()
	}
	return of
}

func units(t testing.TB, unit string, n int, belongs func(unit int) bool) *partition.Table {
	t.Helper()
	return questiontest.Units(t, questiontest.Schema(t, schemaText, unit), n, belongs, cells)
}

func encoder(t testing.TB) *encode.Encoder {
	return encode.New(questiontest.Schema(t, schemaText, partition.UnitRecord))
}

// asked is a question at random weights of this size.
func asked(t testing.TB, bound uint64, clip, size float64, change func(q *conclavev1.LabelSum)) *conclavev1.LabelSum {
	e, rng := encoder(t), rand.New(rand.NewPCG(uint64(bound), 7))
	random := func(n int, size float64) []byte {
		of := make([]float32, n)
		for i := range of {
			of[i] = float32(size * rng.NormFloat64())
		}
		return safetensors.Bytes(of)
	}
	width := e.Width() + len(e.Numbers())
	q := &conclavev1.LabelSum{Mean: random(width, 0.5), Scale: random(width, 1), Weights: random(3*width, size),
		Offsets: random(3, 1), Clip: clip, Bound: bound}
	if change != nil {
		change(q)
	}
	return q
}

func cases(t testing.TB) questiontest.Cases {
	type of = *conclavev1.LabelSum
	c := questiontest.Cases{
		Units: units,
		Good: map[string]proto.Message{
			"all":        asked(t, 1<<16, 0.4, 1, nil),
			"coarse":     asked(t, 1<<8, 0.4, 1, nil),
			"fine":       asked(t, 1<<20, 0.4, 1, nil),
			"not cut":    asked(t, 1<<16, 2, 1, nil),
			"sure rules": asked(t, 1<<16, 0.4, 1000, nil),
		},
		Zeros: map[string]proto.Message{"nothing": asked(t, 1<<16, 0.4, 1, func(q of) { q.Nothing = true })},
		Bad:   map[string]questiontest.Bad{},
	}
	for _, size := range []float64{0, 1, 3e37} {
		for _, bound := range []uint64{1 << 8, 1 << 20} {
			c.Bounds = append(c.Bounds, asked(t, bound, 0.4, size, nil), asked(t, bound, 1e30, size, nil),
				asked(t, bound, 1e-30, size, nil))
		}
	}
	for _, scale := range []float32{0, 1e-38, 3e38} {
		c.Bounds = append(c.Bounds, asked(t, 1<<20, 0.4, 1, func(q of) {
			all, err := safetensors.Floats(q.Scale)
			testkit.Must(t, err)
			for i := range all {
				all[i] = scale
			}
			q.Scale = safetensors.Bytes(all)
		}))
	}
	bad := func(name, want string, change func(q of)) {
		c.Bad[name] = questiontest.Bad{Params: asked(t, 1<<16, 0.4, 1, change), Want: want}
	}
	bad("no bound", "bound of labels is 0; use 256 to 1048576", func(q of) { q.Bound = 0 })
	bad("large bound", "bound of labels is 1048577", func(q of) { q.Bound = 1<<20 + 1 })
	bad("absurd bound", "bound of labels is 18446744073709551615", func(q of) { q.Bound = math.MaxUint64 })
	bad("no clip", "gradients are clipped at 0", func(q of) { q.Clip = 0 })
	bad("no number as clip", "gradients are clipped at NaN", func(q of) { q.Clip = math.NaN() })
	bad("endless clip", "gradients are clipped at +Inf", func(q of) { q.Clip = math.Inf(1) })
	bad("no mean", "means of 0 and scales of", func(q of) { q.Mean = nil })
	bad("a scale less", "use the same schema and version", func(q of) { q.Scale = q.Scale[4:] })
	bad("half a weight", "are not a whole number of float32 values", func(q of) { q.Weights = q.Weights[2:] })
	bad("a weight less", "and the schema has 3 classes", func(q of) { q.Weights = q.Weights[4:] })
	bad("a class less", "2 offsets, and the schema has 3 classes", func(q of) { q.Offsets = q.Offsets[4:] })
	nan := safetensors.Bytes([]float32{float32(math.NaN())})
	bad("a mean of NaN", "mean or scale 1 is not finite", func(q of) { copy(q.Mean, nan) })
	bad("a weight of NaN", "weight or offset 1 is not finite", func(q of) { copy(q.Weights, nan) })
	rng := rand.New(rand.NewPCG(3, 4))
	same := func(of ...float64) func(int) []float64 { return func(int) []float64 { return of } }
	c.Adversaries = []questiontest.Adversary{
		{Name: "the lowest", Records: 1, Record: same(0, -1, 0, 0)},
		{Name: "the highest", Records: 1, Record: same(10, 1, 2, 2)},
		{Name: "empty", Records: 1, Record: same(5, math.NaN(), 1, 1)},
		{Name: "700 alike", Records: 700, Record: same(10, 1, 2, 2)},
		{Name: "3 that do not divide the bound", Records: 3, Record: same(0, 1, 1, 0)},
		{Name: "64 at random", Records: 64, Record: func(int) []float64 { return cells(rng) }},
	}
	return c
}

func TestSumIsAKind(t *testing.T) { questiontest.Run(t, Sum, cases(t)) }

func FuzzSum(f *testing.F) { questiontest.Fuzz(f, Sum, cases(f)) }
