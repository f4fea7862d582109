package node

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"go.uber.org/zap"
	"pgregory.net/rapid"

	"github.com/conclave-dp/conclave/internal/embedding"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
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

// embeddingOf is a question about all kinds of features of records of an encoder.
func embeddingOf(e *partition.Encoder, classes int, bound uint64, change func(q *conclavev1.EmbeddingSum)) *conclavev1.Round {
	q := &conclavev1.EmbeddingSum{Bound: bound, Embedding: &conclavev1.Embedding{Classes: uint32(classes), Parts: []*conclavev1.Embedding_Part{
		{Kind: conclavev1.Embedding_Part_KIND_ONES, Weight: 0.3},
		{Kind: conclavev1.Embedding_Part_KIND_COLUMNS, Weight: 1, Bins: 7},
		{Kind: conclavev1.Embedding_Part_KIND_PAIRS, Weight: 1.5, Bins: 5, Count: 8, Seed: 3},
		{Kind: conclavev1.Embedding_Part_KIND_FOURIER, Weight: 1, Count: 19, Spread: 0.8, Seed: 1},
	}}}
	if e.Image() != nil {
		q.Embedding.Parts = slices.Delete(q.Embedding.Parts, 1, 3)
	}
	if f := featuresOf(e, q.Embedding); f != nil {
		q.Entries = uint32(classes * f.Count())
	}
	if change != nil {
		change(q)
	}
	return &conclavev1.Round{Run: "r", Question: &conclavev1.Round_Sum{Sum: &conclavev1.SumQuestion{
		Statistic: &conclavev1.SumQuestion_Embedding{Embedding: q}}}}
}

// featuresOf are the features of a description, by the package that defines them.
func featuresOf(e *partition.Encoder, d *conclavev1.Embedding) *embedding.Features {
	kinds := []embedding.Kind{"", embedding.Ones, embedding.Columns, embedding.Pairs, embedding.Fourier}
	var parts []embedding.Part
	for _, p := range d.Parts {
		parts = append(parts, embedding.Part{Kind: kinds[p.Kind], Weight: p.Weight, Bins: int(p.Bins), Count: int(p.Count), Spread: p.Spread, Seed: p.Seed})
	}
	f, err := embedding.New(e, int(d.Classes), parts)
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

// mixedTable is a table of mixedSchema of so many units: records, or people of 1 to 9.
func mixedTable(t testing.TB, unit string, units int, who func(unit int) bool) *partition.Table {
	t.Helper()
	text := mixedSchema
	if unit != partition.UnitRecord {
		text = strings.Replace(mixedSchema, "columns:\n", "columns:\n  - {name: who, role: unit}\n", 1)
	}
	table := partition.NewTable(mustSchema(t, text))
	for u := range units {
		rng := rand.New(rand.NewPCG(uint64(u), 5))
		records := 1
		if unit != partition.UnitRecord {
			records += u % 9
		}
		for range records {
			cells := mixedCells(rng)
			if !who(u) {
				continue
			}
			if unit == partition.UnitRecord {
				testkit.Must(t, table.Append(cells, ""))
			} else {
				testkit.Must(t, table.Append(append([]float64{math.NaN()}, cells...), fmt.Sprint("p", u)))
			}
		}
	}
	return table
}

func everyUnit(int) bool { return true }

// mixedNodes divides units among so many nodes.
func mixedNodes(t testing.TB, unit string, units, nodes int) []*Node {
	t.Helper()
	out := make([]*Node, nodes)
	for i := range out {
		c := smallConfig(t, 2)
		c.Unit, c.Site = unit, fmt.Sprint("site", i)
		out[i] = start(t, c, mixedTable(t, unit, units, func(u int) bool { return u%nodes == i }))
	}
	return out
}

// embeddedByHand is the sum in float64, in steps, by the features of one record at a time.
func embeddedByHand(n *Node, q *conclavev1.EmbeddingSum) (sum []float64, records int) {
	f := featuresOf(partition.NewEncoder(n.schema), q.Embedding)
	sum = make([]float64, q.Entries)
	for u := range n.units {
		of := recordsOf(n, u)
		for _, r := range of {
			records++
			f.Each(r.x, 1, func(_ int, at []int32, values []float32) {
				for j, v := range values {
					sum[r.class*f.Count()+int(at[j])] += float64(v) / f.Norm() * float64(q.Bound) / float64(len(of))
				}
			})
		}
	}
	return sum, records
}

// checkByHand compares nodes' sums with one by hand: each record's numbers are cut by less
// than a step, and its share of the bound by less than one.
func checkByHand(t *testing.T, nodes []*Node, r *conclavev1.Round) []int64 {
	t.Helper()
	got := addedUp(t, nodes, r)
	want, records := make([]float64, len(got)), 0
	for _, n := range nodes {
		of, its := embeddedByHand(n, r.GetSum().GetEmbedding())
		records += its
		for i, v := range of {
			want[i] += v
		}
	}
	if len(got) != int(r.GetSum().GetEmbedding().Entries) || records == 0 {
		t.Fatalf("%d numbers of %d records", len(got), records)
	}
	for i, v := range got {
		if off := math.Abs(float64(v) - want[i]); off > 2*float64(records)+1e-5*math.Abs(want[i]) {
			t.Fatalf("number %d is %d, want %v within a step or two of each of %d records", i, v, want[i], records)
		}
	}
	return got
}

// What nodes add up is the sum of their records' features, class by class, and it does not
// depend on how many nodes there are, not in its last bit.
func TestEmbeddingSumsAreThoseOfOneMachine(t *testing.T) {
	for _, unit := range []string{partition.UnitRecord, "who"} {
		const units = 80
		one := mixedNodes(t, unit, units, 1)
		e := partition.NewEncoder(one[0].schema)
		for _, bound := range []uint64{1 << 8, 1 << 16, 1 << 20} {
			r := embeddingOf(e, 3, bound, nil)
			want := checkByHand(t, one, r)
			for _, nodes := range []int{2, 7} {
				if got := addedUp(t, mixedNodes(t, unit, units, nodes), r); !slices.Equal(got, want) {
					t.Errorf("unit %s, bound %d: %d nodes add up to %v, one to %v", unit, bound, nodes, got, want)
				}
			}
			count := len(want) / 3
			for class, ones := range []int64{want[0], want[count], want[2*count]} {
				block := want[class*count : (class+1)*count]
				if empty := !slices.ContainsFunc(block, func(v int64) bool { return v != 0 }); empty != (class == 2) || (ones > 0) == empty {
					t.Errorf("unit %s: class %d has %d ones, its block is %v", unit, class, ones, block)
				}
			}
		}
	}
}

// More records than are worked on at a time, with one unit that stands before them all.
func TestLargeEmbeddingSums(t *testing.T) {
	const units = 2*sampleChunk + 300
	one := mixedNodes(t, partition.UnitRecord, units, 1)
	r := embeddingOf(partition.NewEncoder(one[0].schema), 3, 1<<16, nil)
	want := checkByHand(t, one, r)
	if got := addedUp(t, mixedNodes(t, partition.UnitRecord, units, 3), r); !slices.Equal(got, want) {
		t.Errorf("three nodes add up to %v, one to %v", got, want)
	}
	// A node's order of records does not matter either: others' numbers stay as they are.
	turned := mixedNodes(t, partition.UnitRecord, units, 1)[0]
	slices.Reverse(turned.units)
	if got := discriminatorSumOf(t, turned, r); !slices.Equal(got, want) {
		t.Error("in another order the sum is another")
	}
}

func TestEmbeddingSumsOfImages(t *testing.T) {
	c := imageConfig(t, 2, 60)
	node := func(share [2]float64) *Node {
		c.Share, c.State = share, t.TempDir()
		site, err := ReadSite(c)
		testkit.Must(t, err)
		n, err := site.Node(c.Aggregator, zap.NewNop())
		testkit.Must(t, err)
		return n
	}
	one, two := []*Node{node([2]float64{0, 1})}, []*Node{node([2]float64{0, 0.5}), node([2]float64{0.5, 1})}
	r := embeddingOf(partition.NewEncoder(one[0].schema), 3, 1<<16, nil)
	want := checkByHand(t, one, r)
	if got := addedUp(t, two, r); !slices.Equal(got, want) {
		t.Errorf("two nodes add up to %v, one to %v", got, want)
	}
	columns := embeddingOf(partition.NewEncoder(one[0].schema), 3, 1<<16, func(q *conclavev1.EmbeddingSum) {
		q.Embedding.Parts[1] = &conclavev1.Embedding_Part{Kind: conclavev1.Embedding_Part_KIND_COLUMNS, Weight: 1, Bins: 3}
		q.Entries = 3 * (1 + 4*3)
	})
	checkByHand(t, one, columns)
}

// Without a label all records are of one class.
func TestEmbeddingSumsWithoutALabel(t *testing.T) {
	table := partition.NewTable(mustSchema(t, "columns:\n  - {name: x, kind: continuous, lower: 0, upper: 1}\n"))
	for i := range 50 {
		testkit.Must(t, table.Append([]float64{float64(i) / 49}, ""))
	}
	n := start(t, smallConfig(t, 2), table)
	r := embeddingOf(partition.NewEncoder(n.schema), 1, 1<<12, nil)
	if got := checkByHand(t, []*Node{n}, r); math.Abs(float64(got[0])-50*0.3/math.Sqrt(0.09+1+1)*(1<<12)) > 50 {
		t.Errorf("the count is %d steps", got[0]) // a table of one column has no pairs
	}
}

// squared is the square of the L2 norm of whole numbers.
func squared(t *testing.T, values []int64) uint64 {
	t.Helper()
	square := uint64(0)
	for i, v := range values {
		if v < -1<<21 || v > 1<<21 {
			t.Fatalf("entry %d is %d", i, v)
		}
		square += uint64(v * v)
	}
	return square
}

// A unit's records move the sum by no more than the bound, in whole numbers: whatever and
// however many they are, and whoever else is at the node.
func TestAUnitMovesAnEmbeddingByAtMostTheBound(t *testing.T) {
	c := smallConfig(t, 2)
	c.Unit = "who"
	others := mixedTable(t, "who", 40, everyUnit)
	without := start(t, c, others)
	e := partition.NewEncoder(without.schema)
	empty := math.NaN()
	rng := rand.New(rand.NewPCG(3, 4))
	for name, record := range map[string]func(i int) []float64{
		"1 of the lowest":      func(int) []float64 { return []float64{0, -1, 0, 0, 0, 0, 0} },
		"1 of the highest":     func(int) []float64 { return []float64{10, 1, 4, 1, 1, 2, 1} },
		"1 of a class unknown": func(int) []float64 { return []float64{5, 0, 2, 1, 1, 2, 2} },
		"1 empty":              func(int) []float64 { return []float64{0, empty, 0, empty, 0, empty, 0} },
		"700 alike":            func(int) []float64 { return []float64{10, 1, 4, 1, 1, 2, 1} },
		"300 empty":            func(int) []float64 { return []float64{10, empty, 4, empty, 1, empty, 1} },
		"3 that do not divide the bound": func(int) []float64 {
			return []float64{0, -1, 0, 0, 0, 0, 0}
		},
		"64 of corners": func(i int) []float64 {
			return []float64{float64(10 * (i & 1)), float64(i&2) - 1, float64(i & 4), float64(i >> 3 & 1), float64(i >> 4 & 1), float64(i % 3), float64(i % 3)}
		},
		"200 at random": func(int) []float64 { return mixedCells(rng) },
	} {
		records := 1
		_, _ = fmt.Sscanf(name, "%d", &records)
		table := others.Subset(byNumber(others.Len()))
		for i := range records {
			testkit.Must(t, table.Append(append([]float64{empty}, record(i)...), "adversary"))
		}
		with := withKeyOf(t, without, table)
		for _, bound := range []uint64{1 << 8, 1000, 1 << 16, 1 << 20} {
			r := embeddingOf(e, 3, bound, nil)
			moved := discriminatorSumOf(t, with, r)
			for i, v := range discriminatorSumOf(t, without, r) {
				moved[i] -= v
			}
			square := squared(t, moved)
			if square > bound*bound {
				t.Errorf("%s: the sum moved by %v of %d", name, math.Sqrt(float64(square)), bound)
			}
			if uint64(records) > bound && square != 0 {
				t.Errorf("%s: more records than steps moved the sum by %v", name, math.Sqrt(float64(square)))
			}
			// Corners reach the bound, but for what is cut.
			if short := bound - uint64(math.Sqrt(float64(square))); bound >= 1<<16 && records < 4 && short > bound/200+20 {
				t.Errorf("%s: the sum moved by %d less than the bound %d", name, short, bound)
			}
		}
	}
}

// So it is for features that no encoder makes, and for any parts.
func TestAnyFeaturesMoveAnEmbeddingByAtMostTheBound(t *testing.T) {
	c := smallConfig(t, 1)
	c.Unit = "who"
	nodes := map[int]*Node{}
	for _, records := range []int{1, 2, 7} {
		table := partition.NewTable(mixedTable(t, "who", 1, everyUnit).Schema())
		for range records {
			testkit.Must(t, table.Append([]float64{math.NaN(), 1, 0, 2, 0, 0, 0, 0}, "p"))
		}
		c.State = t.TempDir()
		nodes[records] = start(t, c, table)
	}
	rapid.Check(t, func(rt *rapid.T) {
		n := nodes[rapid.SampledFrom([]int{1, 2, 7}).Draw(rt, "records")]
		value := rapid.OneOf(rapid.SampledFrom([]float32{0, 0.5, 1, -1, 2, 1e-45, 3.4e38, -3.4e38,
			float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))}), rapid.Float32Range(-1, 2))
		for _, x := range n.examples[0].ByClass {
			for i := range x {
				x[i] = value.Draw(rt, "feature")
			}
		}
		bound := rapid.Uint64Range(minBound, maxBound).Draw(rt, "bound")
		weight := rapid.OneOf(rapid.Float64Range(1e-6, 1e6), rapid.SampledFrom([]float64{1, 1e-6, 1e6, 1. / 3}))
		r := embeddingOf(partition.NewEncoder(n.schema), 3, bound, func(q *conclavev1.EmbeddingSum) {
			for _, p := range q.Embedding.Parts {
				p.Weight = weight.Draw(rt, "weight")
			}
		})
		sum := discriminatorSumOf(t, n, r)
		if square := squared(t, sum); square > bound*bound {
			rt.Fatalf("a sum of length %v by one unit, bound %d", math.Sqrt(float64(square)), bound)
		}
	})
}

// A node that is asked for nothing answers with zeros, as long as any other answer.
func TestEmbeddingSumsOfNothing(t *testing.T) {
	n := mixedNodes(t, partition.UnitRecord, 30, 1)[0]
	r := embeddingOf(partition.NewEncoder(n.schema), 3, 1<<16, func(q *conclavev1.EmbeddingSum) { q.Nothing = true })
	if got := discriminatorSumOf(t, n, r); !slices.Equal(got, make([]int64, r.GetSum().GetEmbedding().Entries)) {
		t.Errorf("of nothing: %v", got)
	}
}

// A question that is asked again is answered again, also an older one.
func TestEmbeddingQuestionsAreAnsweredAgain(t *testing.T) {
	n := mixedNodes(t, "who", 40, 1)[0]
	e := partition.NewEncoder(n.schema)
	first := embeddingOf(e, 3, 1<<16, nil)
	want := discriminatorSumOf(t, n, first)
	changes := map[string]func(q *conclavev1.EmbeddingSum){
		"another seed":   func(q *conclavev1.EmbeddingSum) { q.Embedding.Parts[3].Seed = 2 },
		"another weight": func(q *conclavev1.EmbeddingSum) { q.Embedding.Parts[1].Weight = 2 },
		"another spread": func(q *conclavev1.EmbeddingSum) { q.Embedding.Parts[3].Spread = 2 },
		"another bound":  func(q *conclavev1.EmbeddingSum) { q.Bound = 1 << 12 },
		"nothing":        func(q *conclavev1.EmbeddingSum) { q.Nothing = true },
	}
	for name, change := range changes {
		other := embeddingOf(e, 3, 1<<16, change)
		fresh := mixedNodes(t, "who", 40, 1)[0]
		if got := discriminatorSumOf(t, n, other); !slices.Equal(got, discriminatorSumOf(t, fresh, other)) || slices.Equal(got, want) {
			t.Errorf("%s: %v", name, got)
		}
		if got := discriminatorSumOf(t, n, first); !slices.Equal(got, want) {
			t.Errorf("after %s: %v, first it was %v", name, got, want)
		}
		if m := ask(t, n, embeddingOf(e, 3, 1<<16, func(q *conclavev1.EmbeddingSum) { q.Embedding.Classes++ })); m.GetRefusal() == nil {
			t.Errorf("other classes were answered with %v", m)
		}
		if got := discriminatorSumOf(t, n, first); !slices.Equal(got, want) {
			t.Errorf("after a refusal: %v, first it was %v", got, want)
		}
	}
}

func badEmbeddings() map[string]struct {
	change func(q *conclavev1.EmbeddingSum)
	want   string
} {
	type bad = struct {
		change func(q *conclavev1.EmbeddingSum)
		want   string
	}
	sum := func(change func(q *conclavev1.EmbeddingSum), want string) bad { return bad{change, want} }
	part := func(i int, change func(p *conclavev1.Embedding_Part), want string) bad {
		return bad{func(q *conclavev1.EmbeddingSum) { change(q.Embedding.Parts[i]) }, want}
	}
	type partChange = *conclavev1.Embedding_Part
	return map[string]bad{
		"no bound":        sum(func(q *conclavev1.EmbeddingSum) { q.Bound = 0 }, "bound of an embedding is 0; use 256 to 1048576"),
		"small bound":     sum(func(q *conclavev1.EmbeddingSum) { q.Bound = 1<<8 - 1 }, "bound of an embedding is 255"),
		"large bound":     sum(func(q *conclavev1.EmbeddingSum) { q.Bound = 1<<20 + 1 }, "bound of an embedding is 1048577"),
		"absurd bound":    sum(func(q *conclavev1.EmbeddingSum) { q.Bound = math.MaxUint64 }, "bound of an embedding is 18446744073709551615"),
		"nothing said":    sum(func(q *conclavev1.EmbeddingSum) { q.Embedding = nil }, "does not describe its embedding"),
		"no classes":      sum(func(q *conclavev1.EmbeddingSum) { q.Embedding.Classes = 0 }, "an embedding of 0 classes; the schema has 3"),
		"other classes":   sum(func(q *conclavev1.EmbeddingSum) { q.Embedding.Classes = 2 }, "an embedding of 2 classes; the schema has 3"),
		"absurd classes":  sum(func(q *conclavev1.EmbeddingSum) { q.Embedding.Classes = math.MaxUint32 }, "an embedding of 4294967295 classes"),
		"an entry less":   sum(func(q *conclavev1.EmbeddingSum) { q.Entries-- }, "entries where the schema's has"),
		"an entry more":   sum(func(q *conclavev1.EmbeddingSum) { q.Entries++ }, "entries where the schema's has"),
		"no entries":      sum(func(q *conclavev1.EmbeddingSum) { q.Entries = 0 }, "an embedding of 0 entries"),
		"absurd entries":  sum(func(q *conclavev1.EmbeddingSum) { q.Entries = math.MaxUint32 }, "an embedding of 4294967295 entries"),
		"no parts":        sum(func(q *conclavev1.EmbeddingSum) { q.Embedding.Parts = nil }, "no parts"),
		"a nil part":      sum(func(q *conclavev1.EmbeddingSum) { q.Embedding.Parts[1] = &conclavev1.Embedding_Part{} }, "part 2 of the embedding is of kind KIND_UNSPECIFIED"),
		"an unknown kind": part(3, func(p partChange) { p.Kind = 9 }, "part 4 of the embedding is of kind 9, which this node does not know; update it"),
		"weight 0":        part(0, func(p partChange) { p.Weight = 0 }, "weight 0"),
		"negative weight": part(0, func(p partChange) { p.Weight = -1 }, "weight -1"),
		"weight NaN":      part(2, func(p partChange) { p.Weight = math.NaN() }, "weight NaN"),
		"infinite weight": part(2, func(p partChange) { p.Weight = math.Inf(1) }, "weight +Inf"),
		"one bin":         part(1, func(p partChange) { p.Bins = 1 }, "1 bins"),
		"absurd bins":     part(2, func(p partChange) { p.Bins = math.MaxUint32 }, "4294967295 bins"),
		"no waves":        part(3, func(p partChange) { p.Count = 0 }, "0 waves"),
		"absurd waves":    part(3, func(p partChange) { p.Count = math.MaxUint32 }, "4294967295 waves"),
		"many waves":      part(3, func(p partChange) { p.Count = 30_000 }, "ask for fewer"),
		"spread 0":        part(3, func(p partChange) { p.Spread = 0 }, "spread 0"),
		"spread NaN":      part(3, func(p partChange) { p.Spread = math.NaN() }, "spread NaN"),
		"huge spread":     part(3, func(p partChange) { p.Spread = 1e300 }, "spread 1e+300"),
	}
}

// What cannot be answered is refused with a reason, and found before a run is open.
func TestEmbeddingQuestionsAreChecked(t *testing.T) {
	c := smallConfig(t, 3)
	table := mixedTable(t, partition.UnitRecord, 30, everyUnit)
	n := start(t, c, table)
	c.State = t.TempDir()
	site, err := NewSite(c, table)
	testkit.Must(t, err)
	e := partition.NewEncoder(n.schema)
	if err := site.CheckRound(embeddingOf(e, 3, 1<<16, nil)); err != nil {
		t.Errorf("a good question: %v", err)
	}
	for name, c := range badEmbeddings() {
		r := embeddingOf(e, 3, 1<<16, c.change)
		if got := ask(t, n, r).GetRefusal().GetReason(); !strings.Contains(got, c.want) {
			t.Errorf("%s: refused with %q, want %q", name, got, c.want)
		}
		if err := site.CheckRound(r); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: checked as %v, want %q", name, err, c.want)
		}
	}
}

// checkEmbeddingSum checks that a sum of an embedding has a number for each that was asked
// for and is no longer than the units' vectors can make it.
func checkEmbeddingSum(t *testing.T, n *Node, todo task, asked *conclavev1.EmbeddingSum, s *conclavev1.Sum) {
	t.Helper()
	squares := 0.0
	for _, v := range s.Values {
		squares += float64(v) * float64(v)
	}
	if s.Run != todo.run || s.Round != todo.round || len(s.Values) != int(asked.GetEntries()) || len(s.Values) == 0 {
		t.Fatalf("a sum of %d numbers of round %d of %q", len(s.Values), s.Round, s.Run)
	}
	most := float64(len(n.units)) * float64(asked.GetBound())
	if asked.GetNothing() {
		most = 0
	}
	if math.Sqrt(squares) > most*(1+1e-9) {
		t.Fatalf("a sum of length %v by %d units with bound %d", math.Sqrt(squares), len(n.units), asked.GetBound())
	}
}
