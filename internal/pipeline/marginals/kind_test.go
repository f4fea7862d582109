package marginals

import (
	"math"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/conclave-dp/conclave/internal/pipeline/plan"
	"github.com/conclave-dp/conclave/internal/question/questiontest"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// smallQuestion asks for all pairs of the suite's small schema.
func smallQuestion(change func(*conclavev1.MarginalsQuestion)) *conclavev1.MarginalsQuestion {
	q := &conclavev1.MarginalsQuestion{Columns: []*conclavev1.CellColumn{
		{Column: 0, From: []float64{0, 0.25, 0.5, math.Nextafter(0.5, 1)}},
		{Column: 1}, {Column: 2, Groups: []uint32{1, 0, 1}}, {Column: 3},
	}}
	for i := range uint32(4) {
		for j := i; j < 4; j++ {
			q.First, q.Second, q.Weights = append(q.First, i), append(q.Second, j), append(q.Weights, 1000+7*i+j)
		}
	}
	if change != nil {
		change(q)
	}
	return q
}

// smallSigns asks for all pairs of three of its columns as signs.
func smallSigns(change func(*conclavev1.MarginalsQuestion)) *conclavev1.MarginalsQuestion {
	q := &conclavev1.MarginalsQuestion{Together: 1000, Columns: []*conclavev1.CellColumn{
		{Column: 0, From: []float64{0, 0.5}, Sign: true}, {Column: 1, Sign: true},
		{Column: 2, Groups: []uint32{0, 0, 1}, Sign: true},
	}}
	if change != nil {
		change(q)
	}
	return q
}

func cases() questiontest.Cases {
	type question = *conclavev1.MarginalsQuestion
	bad := func(want string, change func(question)) questiontest.Bad {
		return questiontest.Bad{Params: smallQuestion(change), Want: want}
	}
	badSigns := func(want string, change func(question)) questiontest.Bad {
		return questiontest.Bad{Params: smallSigns(change), Want: want}
	}
	columns := func(change func(c []*conclavev1.CellColumn)) func(question) {
		return func(q question) { change(q.Columns) }
	}
	return questiontest.Cases{
		Good: map[string]proto.Message{
			"all pairs": smallQuestion(nil),
			"one table": smallQuestion(func(q question) {
				q.First, q.Second, q.Weights = []uint32{0}, []uint32{3}, []uint32{1 << 12}
			}),
			"signs": smallSigns(nil),
			"cells and signs": smallSigns(func(q question) {
				q.Together, q.Columns[0].Sign = 0, false
				q.First, q.Second, q.Weights = []uint32{0, 1, 0, 1}, []uint32{0, 1, 1, 2}, []uint32{9, 80, 700, 6000}
			}),
			"one cell": smallQuestion(func(q question) { q.Columns[0].From = []float64{-5} }),
		},
		Zeros: map[string]proto.Message{
			"a baseline":       smallQuestion(func(q question) { q.Baseline = true }),
			"one of the signs": smallSigns(func(q question) { q.Baseline = true }),
		},
		Bad: map[string]questiontest.Bad{
			"no tables": bad("one table at least", func(q question) {
				q.First, q.Second, q.Weights = nil, nil, nil
			}),
			"a weight less":   bad("9 weights", func(q question) { q.Weights = q.Weights[1:] }),
			"no weight":       bad("the weight 0", func(q question) { q.Weights[3] = 0 }),
			"a large norm":    bad("lower the weights", func(q question) { q.Weights[3], q.Weights[4] = 1<<20, 1<<20 }),
			"a column beyond": bad("columns 0 and 4", func(q question) { q.Second[0] = 4 }),
			"turned round":    bad("name the first one first", func(q question) { q.First[1], q.Second[1] = 1, 0 }),
			"no such column": bad("column 9 of 4", columns(func(c []*conclavev1.CellColumn) {
				c[0].Column = 9
			})),
			"no cells of a number": bad(`"x" have 0 lower ends`, columns(func(c []*conclavev1.CellColumn) {
				c[0].From = nil
			})),
			"cells of categories": bad(`"c" have 1 lower ends`, columns(func(c []*conclavev1.CellColumn) {
				c[2].From = []float64{0}
			})),
			"falling cells": bad("do not rise", columns(func(c []*conclavev1.CellColumn) {
				c[0].From = []float64{0, 1, 1}
			})),
			"no number": bad("do not rise", columns(func(c []*conclavev1.CellColumn) {
				c[0].From = []float64{math.NaN()}
			})),
			"too few groups": bad("2 groups for 3 values", columns(func(c []*conclavev1.CellColumn) {
				c[2].Groups = []uint32{0, 1}
			})),
			"a sign of three cells": badSigns("are 3; a sign has two", columns(func(c []*conclavev1.CellColumn) {
				c[2].Groups = nil
			})),
			"pairs of cells":        badSigns("is not a sign", func(q question) { q.Columns[1].Sign = false }),
			"pairs and tables":      badSigns("ask for them in another", func(q question) { q.First = []uint32{0} }),
			"no pairs":              badSigns("a sum of 0 pairs", func(q question) { q.Columns = q.Columns[:1] }),
			"a large weight":        badSigns("the weight 1048577", func(q question) { q.Together = 1<<20 + 1 }),
			"a large norm of pairs": badSigns("lower the weight", func(q question) { q.Together = 1 << 20 }),
			"a group beyond": bad("beyond their number", columns(func(c []*conclavev1.CellColumn) {
				c[2].Groups = []uint32{0, 1, 3}
			})),
		},
		Adversaries: []questiontest.Adversary{
			{Name: "one record", Records: 1, Record: func(int) []float64 { return []float64{1, 0, 2, 0} }},
			{Name: "three alike", Records: 3, Record: func(int) []float64 { return []float64{0.5, 1, 0, 1} }},
			{Name: "many", Records: 77, Record: func(i int) []float64 {
				return []float64{float64(i%5) / 4, float64(i % 2), float64(i % 3), float64(i % 2)}
			}},
		},
		Bounds: []proto.Message{smallQuestion(nil), smallSigns(nil)},
	}
}

func TestColumnsAreAKind(t *testing.T) { questiontest.Run(t, kinds[0], cases()) }
func TestPairsAreAKind(t *testing.T)   { questiontest.Run(t, kinds[1], cases()) }

func FuzzQuestion(f *testing.F) { questiontest.Fuzz(f, kinds[0], cases()) }

// Every record adds the same norm, whatever its values are, and that is the bound: nothing is clipped.
func TestEveryRecordHasTheSameNorm(t *testing.T) {
	schema, err := partition.ParseSchema([]byte(`columns:
  - {name: a, kind: continuous, lower: -3, upper: 7, nullable: true}
  - {name: b, kind: integer, lower: 0, upper: 99999}
  - {name: c, kind: categorical, categories: [u, v, w], nullable: true}
  - {name: d, kind: binary, nullable: true}
`))
	testkit.Must(t, err)
	train := trainingOf(t, schema)
	first, err := train.columnsQuestion(4)
	testkit.Must(t, err)
	second, err := train.pairsQuestion(train.widest(), train.pairsOf(train.widest()), onColumns, 4)
	testkit.Must(t, err)
	rapid.Check(t, func(rt *rapid.T) {
		row := []float64{
			rapid.OneOf(rapid.Float64Range(-3, 7), rapid.Just(math.NaN())).Draw(rt, "a"),
			float64(rapid.IntRange(0, 99999).Draw(rt, "b")),
			rapid.SampledFrom([]float64{0, 1, 2, math.NaN()}).Draw(rt, "c"),
			rapid.SampledFrom([]float64{0, 1, math.NaN()}).Draw(rt, "d"),
		}
		for _, q := range []*asked{first, second} {
			sum := make([]int64, q.entries)
			q.count(row, 0, 1, make([]int, len(q.columns)), sum)
			squares := 0.0
			for _, v := range sum {
				squares += float64(v) * float64(v)
			}
			if norm := math.Sqrt(squares); norm > float64(q.bound) || norm <= float64(q.bound)-1 {
				rt.Fatalf("record %v has the norm %v, the bound is %d", row, norm, q.bound)
			}
		}
	})
}

// A unit adds the weight of each table to it, however many records it has and whatever their values are, and
// its vector is within the bound.
func TestEveryUnitHasTheSameWeight(t *testing.T) {
	schema, err := partition.ParseSchema([]byte(peopleSchema))
	testkit.Must(t, err)
	train := trainingOf(t, schema)
	fine, err := train.columnsQuestion(4)
	testkit.Must(t, err)
	light, err := train.pairsQuestion(train.widest(), train.pairsOf(train.widest()), onColumns,
		plan.MostSigma/float64(leastBound))
	testkit.Must(t, err)
	rows := people(400)
	rapid.Check(t, func(rt *rapid.T) {
		k := rapid.OneOf(rapid.IntRange(1, 9), rapid.IntRange(10, 3000)).Draw(rt, "records")
		alike := rapid.Bool().Draw(rt, "alike")
		for _, q := range []*asked{fine, light} {
			sum := make([]int64, q.entries)
			for nth := range k {
				row := rows[0]
				if !alike {
					row = rows[(7*nth)%len(rows)]
				}
				q.count(row, nth, k, make([]int, len(q.columns)), sum)
			}
			squares := 0.0
			for _, table := range q.tables {
				all := int64(0)
				for _, v := range sum[table.offset : table.offset+table.n] {
					all += v
					squares += float64(v) * float64(v)
				}
				if all != table.weight {
					rt.Fatalf("a unit of %d records adds %d to a table of weight %d", k, all, table.weight)
				}
			}
			norm := math.Sqrt(squares)
			if norm > float64(q.bound) || alike && norm <= float64(q.bound)-1 {
				rt.Fatalf("a unit of %d records has the norm %v, the bound is %d", k, norm, q.bound)
			}
		}
	})
}
