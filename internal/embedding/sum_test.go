package embedding

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/internal/question/questiontest"
	_ "github.com/conclave-dp/conclave/internal/testkit/draws" // the same seed in every run
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/encode"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// mixedSchema has columns of all kinds, and a class that no record has.
const mixedSchema = `columns:
  - {name: a, kind: continuous, lower: 0, upper: 10}
  - {name: b, kind: continuous, lower: -1, upper: 1, nullable: true}
  - {name: c, kind: integer, lower: 0, upper: 4}
  - {name: d, kind: binary, nullable: true}
  - {name: e, kind: categorical, categories: [u, v]}
  - {name: f, kind: categorical, categories: [u, v, w], nullable: true}
  - {name: y, kind: categorical, categories: [p, q, none]}
label: y
`

// sumOf asks for all kinds of features of records of an encoder.
func sumOf(
	e *encode.Encoder, classes int, bound uint64, change func(q *conclavev1.EmbeddingSum),
) *conclavev1.EmbeddingSum {
	q := &conclavev1.EmbeddingSum{Bound: bound, Embedding: &conclavev1.Embedding{
		Classes: uint32(classes), Parts: []*conclavev1.Embedding_Part{
			{Kind: conclavev1.Embedding_Part_KIND_ONES, Weight: 0.3},
			{Kind: conclavev1.Embedding_Part_KIND_COLUMNS, Weight: 1, Bins: 7},
			{Kind: conclavev1.Embedding_Part_KIND_PAIRS, Weight: 1.5, Bins: 5, Count: 8, Seed: 3},
			{Kind: conclavev1.Embedding_Part_KIND_FOURIER, Weight: 1, Count: 19, Spread: 0.8, Seed: 1},
		},
	}}
	if e.Image() != nil {
		q.Embedding.Parts = append(slices.Delete(q.Embedding.Parts, 1, 3), &conclavev1.Embedding_Part{
			Kind: conclavev1.Embedding_Part_KIND_PATCHES, Weight: 0.8, Count: 5, Spread: 1, Seed: 2})
	}
	if f := featuresOf(e, q.Embedding); f != nil {
		q.Entries = uint32(classes * f.Count())
	}
	if change != nil {
		change(q)
	}
	return q
}

// featuresOf are the features of a description, nil of one that cannot be.
func featuresOf(e *encode.Encoder, d *conclavev1.Embedding) *Features {
	kinds := []Kind{"", Ones, Columns, Pairs, Fourier, Patches}
	var parts []Part
	for _, p := range d.Parts {
		parts = append(parts, Part{
			Kind: kinds[p.Kind], Weight: p.Weight, Bins: int(p.Bins), Count: int(p.Count),
			Spread: p.Spread, Seed: p.Seed,
		})
	}
	f, err := New(e, int(d.Classes), parts)
	if err != nil {
		return nil
	}
	return f
}

// mixedCells draws a record of mixedSchema; corners and empty cells are likely.
func mixedCells(rng *rand.Rand) []float64 {
	cells := []float64{
		10 * min(1, max(0, 1.4*rng.Float64()-0.2)), 2*rng.Float64() - 1, float64(rng.IntN(5)),
		float64(rng.IntN(2)), float64(rng.IntN(2)), float64(rng.IntN(3)), float64(rng.IntN(2)),
	}
	for _, nullable := range []int{1, 3, 5} {
		if rng.IntN(4) == 0 {
			cells[nullable] = math.NaN()
		}
	}
	return cells
}

func mixedUnits(t testing.TB, unit string, units int, belongs func(unit int) bool) *partition.Table {
	t.Helper()
	return questiontest.Units(t, questiontest.Schema(t, mixedSchema, unit), units, belongs, mixedCells)
}

// mixedEncoder is the encoder of mixedSchema.
func mixedEncoder(t testing.TB) *encode.Encoder {
	return encode.New(questiontest.Schema(t, mixedSchema, partition.UnitRecord))
}

// mixedSites divides units among the given number of sites.
func mixedSites(t testing.TB, unit string, units, sites int) []*question.Site {
	t.Helper()
	out := make([]*question.Site, sites)
	for i := range out {
		out[i] = questiontest.Site(t, mixedUnits(t, unit, units, func(u int) bool { return u%sites == i }), 2)
	}
	return out
}

func cases(t testing.TB) questiontest.Cases {
	e := mixedEncoder(t)
	type asked = *conclavev1.EmbeddingSum
	ask := func(bound uint64, change func(q asked)) asked { return sumOf(e, 3, bound, change) }
	c := questiontest.Cases{
		Units: mixedUnits,
		Good: map[string]proto.Message{
			"all":            ask(1<<16, nil),
			"coarse":         ask(1<<8, nil),
			"fine":           ask(1<<20, nil),
			"another seed":   ask(1<<16, func(q asked) { q.Embedding.Parts[3].Seed = 2 }),
			"another weight": ask(1<<16, func(q asked) { q.Embedding.Parts[1].Weight = 2 }),
			"another spread": ask(1<<16, func(q asked) { q.Embedding.Parts[3].Spread = 2 }),
			"another bound":  ask(1<<12, nil),
		},
		Zeros:       map[string]proto.Message{"nothing": ask(1<<16, func(q asked) { q.Nothing = true })},
		Bad:         map[string]questiontest.Bad{},
		Adversaries: adversaries(),
		Bounds:      []proto.Message{ask(1<<8, nil), ask(1000, nil), ask(1<<16, nil), ask(1<<20, nil)},
		// Corners reach the bound, except for the part that is cut.
		Moved: func(t testing.TB, a questiontest.Adversary, params proto.Message, distance float64) {
			bound := float64(params.(asked).Bound)
			if float64(a.Records) > bound && distance != 0 {
				t.Errorf("%s: more records than steps moved the sum by %v", a.Name, distance)
			}
			if short := bound - math.Floor(distance); bound >= 1<<16 && a.Records < 4 && short > bound/200+20 {
				t.Errorf("%s: the sum moved by %v less than the bound %v", a.Name, short, bound)
			}
		},
	}
	bad := func(name, want string, change func(q asked)) {
		c.Bad[name] = questiontest.Bad{Params: ask(1<<16, change), Want: want}
	}
	type partChange = *conclavev1.Embedding_Part
	part := func(name string, i int, want string, change func(p partChange)) {
		bad(name, want, func(q asked) { change(q.Embedding.Parts[i]) })
	}
	bad("no bound", "bound of an embedding is 0; use 256 to 1048576",
		func(q asked) { q.Bound = 0 })
	bad("small bound", "bound of an embedding is 255",
		func(q asked) { q.Bound = 1<<8 - 1 })
	bad("large bound", "bound of an embedding is 1048577",
		func(q asked) { q.Bound = 1<<20 + 1 })
	bad("absurd bound", "bound of an embedding is 18446744073709551615",
		func(q asked) { q.Bound = math.MaxUint64 })
	bad("nothing said", "does not describe its embedding",
		func(q asked) { q.Embedding = nil })
	bad("no classes", "an embedding of 0 classes; the schema has 3",
		func(q asked) { q.Embedding.Classes = 0 })
	bad("other classes", "an embedding of 2 classes; the schema has 3",
		func(q asked) { q.Embedding.Classes = 2 })
	bad("absurd classes", "an embedding of 4294967295 classes",
		func(q asked) { q.Embedding.Classes = math.MaxUint32 })
	bad("an entry less", "entries, want",
		func(q asked) { q.Entries-- })
	bad("an entry more", "entries, want",
		func(q asked) { q.Entries++ })
	bad("no entries", "an embedding of 0 entries",
		func(q asked) { q.Entries = 0 })
	bad("absurd entries", "an embedding of 4294967295 entries",
		func(q asked) { q.Entries = math.MaxUint32 })
	bad("no parts", "no parts",
		func(q asked) { q.Embedding.Parts = nil })
	bad("a nil part", "part 2 of the embedding has the kind KIND_UNSPECIFIED",
		func(q asked) { q.Embedding.Parts[1] = &conclavev1.Embedding_Part{} })
	part("an unknown kind", 3, "part 4 of the embedding has the kind 9, which is unknown to this node; update the node",
		func(p partChange) { p.Kind = 9 })
	part("weight 0", 0, "weight 0",
		func(p partChange) { p.Weight = 0 })
	part("negative weight", 0, "weight -1",
		func(p partChange) { p.Weight = -1 })
	part("weight NaN", 2, "weight NaN",
		func(p partChange) { p.Weight = math.NaN() })
	part("infinite weight", 2, "weight +Inf",
		func(p partChange) { p.Weight = math.Inf(1) })
	part("one bin", 1, "1 bins",
		func(p partChange) { p.Bins = 1 })
	part("absurd bins", 2, "4294967295 bins",
		func(p partChange) { p.Bins = math.MaxUint32 })
	part("no waves", 3, "0 waves",
		func(p partChange) { p.Count = 0 })
	part("absurd waves", 3, "4294967295 waves",
		func(p partChange) { p.Count = math.MaxUint32 })
	part("many waves", 3, "use fewer",
		func(p partChange) { p.Count = 30_000 })
	part("spread 0", 3, "spread 0",
		func(p partChange) { p.Spread = 0 })
	part("spread NaN", 3, "spread NaN",
		func(p partChange) { p.Spread = math.NaN() })
	part("huge spread", 3, "spread 1e+300",
		func(p partChange) { p.Spread = 1e300 })
	return c
}

// adversaries are units of records of mixedSchema.
func adversaries() []questiontest.Adversary {
	empty, rng := math.NaN(), rand.New(rand.NewPCG(3, 4))
	always := func(cells ...float64) func(int) []float64 {
		return func(int) []float64 { return slices.Clone(cells) }
	}
	return []questiontest.Adversary{
		{Name: "the lowest", Records: 1, Record: always(0, -1, 0, 0, 0, 0, 0)},
		{Name: "the highest", Records: 1, Record: always(10, 1, 4, 1, 1, 2, 1)},
		{Name: "a class unknown", Records: 1, Record: always(5, 0, 2, 1, 1, 2, 2)},
		{Name: "empty", Records: 1, Record: always(0, empty, 0, empty, 0, empty, 0)},
		{Name: "700 alike", Records: 700, Record: always(10, 1, 4, 1, 1, 2, 1)},
		{Name: "300 empty", Records: 300, Record: always(10, empty, 4, empty, 1, empty, 1)},
		{Name: "3 that do not divide the bound", Records: 3, Record: always(0, -1, 0, 0, 0, 0, 0)},
		{Name: "64 of corners", Records: 64, Record: func(i int) []float64 {
			return []float64{
				float64(10 * (i & 1)), float64(i&2) - 1, float64(i & 4), float64(i >> 3 & 1), float64(i >> 4 & 1),
				float64(i % 3), float64(i % 3),
			}
		}},
		{Name: "200 at random", Records: 200, Record: func(int) []float64 { return mixedCells(rng) }},
	}
}

func TestSumIsAKind(t *testing.T) { questiontest.Run(t, Sum, cases(t)) }

func FuzzSum(f *testing.F) { questiontest.Fuzz(f, Sum, cases(f)) }

// sumByHand is the sum in float64, in steps, by the features of one record at a time.
func sumByHand(s *question.Site, q *conclavev1.EmbeddingSum) (sum []float64, records int) {
	f := featuresOf(encode.New(s.Schema), q.Embedding)
	sum = make([]float64, q.Entries)
	for _, unit := range s.Units {
		for _, r := range unit {
			records++
			f.Each(s.Record(r), 1, func(_ int, at []int32, values []float32) {
				for j, v := range values {
					sum[r.Class*f.Count()+int(at[j])] += float64(v) / f.Norm() * float64(q.Bound) / float64(len(unit))
				}
			})
		}
	}
	return sum, records
}

// checkByHand compares sites' sums with one by hand: each record's numbers are cut by less
// than a step, and its share of the bound by less than one.
func checkByHand(t *testing.T, sites []*question.Site, q *conclavev1.EmbeddingSum) []int64 {
	t.Helper()
	got := questiontest.AddUp(t, sites, Sum, q)
	want, records := make([]float64, len(got)), 0
	for _, s := range sites {
		of, its := sumByHand(s, q)
		records += its
		for i, v := range of {
			want[i] += v
		}
	}
	if len(got) != int(q.Entries) || records == 0 {
		t.Fatalf("%d numbers of %d records", len(got), records)
	}
	for i, v := range got {
		if off := math.Abs(float64(v) - want[i]); off > 2*float64(records)+1e-5*math.Abs(want[i]) {
			t.Fatalf("number %d is %d, want %v within a step or two of each of %d records", i, v, want[i], records)
		}
	}
	return got
}

// The sites' sums add up to the sum of their records' features, class by class.
func TestSumsAreThoseOfOneMachine(t *testing.T) {
	for _, unit := range []string{partition.UnitRecord, questiontest.UnitColumn} {
		for _, bound := range []uint64{1 << 8, 1 << 16, 1 << 20} {
			got := checkByHand(t, mixedSites(t, unit, 80, 2), sumOf(mixedEncoder(t), 3, bound, nil))
			count := len(got) / 3
			for class, ones := range []int64{got[0], got[count], got[2*count]} {
				block := got[class*count : (class+1)*count]
				empty := !slices.ContainsFunc(block, func(v int64) bool { return v != 0 })
				if empty != (class == 2) || (ones > 0) == empty {
					t.Errorf("unit %s: class %d has %d ones, its block is %v", unit, class, ones, block)
				}
			}
		}
	}
}

// More records than are worked on at a time, with one unit that stands before them all.
func TestLargeSums(t *testing.T) {
	const units = 1324 // several blocks, each of several batches
	one := mixedSites(t, partition.UnitRecord, units, 1)
	q := sumOf(mixedEncoder(t), 3, 1<<16, nil)
	want := checkByHand(t, one, q)
	if got := questiontest.AddUp(t, mixedSites(t, partition.UnitRecord, units, 3), Sum, q); !slices.Equal(got, want) {
		t.Errorf("three sites add up to %v, one to %v", got, want)
	}
	// A site's order of records does not matter either: others' numbers stay as they are.
	turned := mixedSites(t, partition.UnitRecord, units, 1)[0]
	slices.Reverse(turned.Units)
	if got := questiontest.Sum(t, turned, Sum, q); !slices.Equal(got, want) {
		t.Error("in another order the sum is another")
	}
}

func TestSumsOfImages(t *testing.T) {
	all, rows := questiontest.Images(t, 6, 5, 1, 60), questiontest.Rows(60)
	part := func(rows []int) *question.Site { return questiontest.Site(t, all.Subset(rows), 2) }
	one, two := []*question.Site{part(rows)}, []*question.Site{part(rows[:25]), part(rows[25:])}
	e := encode.New(one[0].Schema)
	q := sumOf(e, 2, 1<<16, nil)
	want := checkByHand(t, one, q)
	if got := questiontest.AddUp(t, two, Sum, q); !slices.Equal(got, want) {
		t.Errorf("two sites add up to %v, one to %v", got, want)
	}
	checkByHand(t, one, sumOf(e, 2, 1<<16, func(q *conclavev1.EmbeddingSum) {
		q.Embedding.Parts[1] = &conclavev1.Embedding_Part{
			Kind: conclavev1.Embedding_Part_KIND_COLUMNS, Weight: 1, Bins: 3,
		}
		q.Embedding.Parts = q.Embedding.Parts[:2]
		q.Entries = 2 * (1 + 30*3)
	}))
}

// Without a label all records are of one class.
func TestSumsWithoutALabel(t *testing.T) {
	table := partition.NewTable(questiontest.Schema(t,
		"columns:\n  - {name: x, kind: continuous, lower: 0, upper: 1}\n", partition.UnitRecord))
	for i := range 50 {
		questiontest.Append(t, table, "", []float64{float64(i) / 49})
	}
	s := questiontest.Site(t, table, 2)
	got := checkByHand(t, []*question.Site{s}, sumOf(encode.New(s.Schema), 1, 1<<12, nil))
	if math.Abs(float64(got[0])-50*0.3/math.Sqrt(0.09+1+1)*(1<<12)) > 50 {
		t.Errorf("the count is %d steps", got[0]) // a table of one column has no pairs
	}
}

// A unit moves the sum by at most the bound also with features that no encoder makes, and for
// any parts.
func TestAnyFeaturesMoveASumByAtMostTheBound(t *testing.T) {
	sites := map[int]*question.Site{}
	for _, records := range []int{1, 2, 7} {
		table := partition.NewTable(questiontest.Schema(t, mixedSchema, questiontest.UnitColumn))
		for range records {
			questiontest.Append(t, table, "p", []float64{1, 0, 2, 0, 0, 0, 0})
		}
		sites[records] = questiontest.Site(t, table, 1)
	}
	rapid.Check(t, func(rt *rapid.T) {
		s := sites[rapid.SampledFrom([]int{1, 2, 7}).Draw(rt, "records")]
		value := rapid.OneOf(rapid.SampledFrom([]float32{0, 0.5, 1, -1, 2, 1e-45, 3.4e38, -3.4e38,
			float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))}), rapid.Float32Range(-1, 2))
		for _, x := range s.Examples[0].ByClass {
			for i := range x {
				x[i] = value.Draw(rt, "feature")
			}
		}
		bound := rapid.Uint64Range(question.MinBound, question.MaxBound).Draw(rt, "bound")
		weight := rapid.OneOf(rapid.Float64Range(1e-6, 1e6), rapid.SampledFrom([]float64{1, 1e-6, 1e6, 1. / 3}))
		q := sumOf(encode.New(s.Schema), 3, bound, func(q *conclavev1.EmbeddingSum) {
			for _, p := range q.Embedding.Parts {
				p.Weight = weight.Draw(rt, "weight")
			}
		})
		questiontest.CheckAnswer(t, s, questiontest.MustAsk(t, s, Sum, q, "r", 1)) // of the one unit
	})
}
