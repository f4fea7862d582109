package classcounts

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/internal/question/questiontest"
	_ "github.com/conclave-dp/conclave/internal/testkit/draws" // the same seed in every run
	"github.com/conclave-dp/conclave/partition"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

func counts(classes uint32, scale uint64) *conclavev1.ClassCounts {
	return &conclavev1.ClassCounts{Classes: classes, Scale: scale}
}

func cases() questiontest.Cases {
	record := func(class float64) func(int) []float64 {
		return func(int) []float64 { return []float64{1, 1, 2, class} }
	}
	return questiontest.Cases{
		Good: map[string]proto.Message{
			"whole": counts(2, 1), "coarse": counts(2, 1000), "fine": counts(2, maxScale),
		},
		Bad: map[string]questiontest.Bad{
			"other classes": {Params: counts(3, 10), Want: "counts of 3 classes; the schema has 2"},
			"huge classes":  {Params: counts(math.MaxUint32, 10), Want: "counts of 4294967295 classes"},
			"no scale":      {Params: counts(2, 0), Want: "at scale 0"},
			"large scale":   {Params: counts(2, maxScale+1), Want: "at scale 1048577"},
			"huge scale":    {Params: counts(2, math.MaxUint64), Want: "at scale 18446744073709551615"},
		},
		Adversaries: []questiontest.Adversary{
			{Name: "one record", Records: 1, Record: record(1)},
			{Name: "many of a class", Records: 700, Record: record(0)},
			{Name: "some of both", Records: 7, Record: func(i int) []float64 {
				return []float64{0, 0, 0, float64(i % 2)}
			}},
		},
		Bounds: []proto.Message{counts(2, 1), counts(2, 1000), counts(2, maxScale)},
	}
}

func TestClassCountsAreAKind(t *testing.T) { questiontest.Run(t, Kind, cases()) }

func FuzzClassCounts(f *testing.F) { questiontest.Fuzz(f, Kind, cases()) }

// A privacy unit, whatever and however many its records are, moves the sums by
// at most the scale in the L1 norm, so also in the L2 norm.
func TestAUnitMovesTheClassCountsByAtMostTheScale(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		classes := rapid.IntRange(1, 6).Draw(t, "classes")
		scale := rapid.Int64Range(1, maxScale).Draw(t, "scale")
		unit := rapid.SliceOfN(rapid.IntRange(0, classes-1), 1, 40)
		units := rapid.SliceOfN(unit, 1, 10).Draw(t, "units")
		with := sum(units, classes, scale)
		gone := rapid.IntRange(0, len(units)-1).Draw(t, "gone")
		others := slices.Delete(slices.Clone(units), gone, gone+1)
		without := sum(others, classes, scale)
		l1, l2 := int64(0), 0.0
		for c := range classes {
			d := with[c] - without[c]
			if d < 0 {
				t.Fatalf("class %d shrank by a unit: %d to %d", c, without[c], with[c])
			}
			l1 += d
			l2 += float64(d) * float64(d)
		}
		if l1 > scale || math.Sqrt(l2) > float64(scale)*(1+1e-9) {
			t.Fatalf("the unit %v moves the sums by %d (L1) and %v (L2), more than the scale %d",
				units[gone], l1, math.Sqrt(l2), scale)
		}
		// Rounding takes less than one part of the scale for each record.
		if l1 <= scale-int64(len(units[gone])) {
			t.Fatalf("the unit %v moves the sums by %d, too little for the scale %d", units[gone], l1, scale)
		}
	})
}

// sum counts records of these classes, by unit.
func sum(units [][]int, classes int, scale int64) []int64 {
	values := make([]int64, classes)
	for _, of := range units {
		b := question.Block{Classes: of}
		for nth := range of {
			b.Nth, b.Of = append(b.Nth, uint32(nth)), append(b.Of, uint32(len(of)))
		}
		adder(scale)(&b, values)
	}
	return values
}

func TestClassCountsOfRecords(t *testing.T) {
	table := questiontest.SmallTable(t, 50, 3)
	want := make([]int64, 2)
	for row := range table.Len() {
		want[table.Label(row)] += 1000
	}
	if got := questiontest.Sum(t, questiontest.Site(t, table, 4), Kind, counts(2, 1000)); !slices.Equal(got, want) {
		t.Errorf("counts %v, want %v", got, want)
	}
}

// People with 1, 2, 3, ... records, every second of class 1.
func TestClassCountsOfPeople(t *testing.T) {
	const schema = `columns:
  - {name: x, kind: continuous, lower: 0, upper: 1}
  - {name: y, kind: binary}
label: y
`
	table := partition.NewTable(questiontest.Schema(t, schema, questiontest.UnitColumn))
	for p := range 3 {
		for k := range p + 1 {
			questiontest.Append(t, table, fmt.Sprintf("p%d", p), []float64{float64(p) / 100, float64(k % 2)})
		}
	}
	// One record of class 0; one of each; two of class 0 and one of class 1.
	got := questiontest.Sum(t, questiontest.Site(t, table, 2), Kind, counts(2, 600))
	if want := []int64{600 + 300 + 400, 300 + 200}; !slices.Equal(got, want) {
		t.Errorf("counts %v, want %v", got, want)
	}
}
