package node

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// A privacy unit, whatever and however many its records are, moves the sums by
// at most the scale in the L1 norm, so also in the L2 norm.
func TestAUnitMovesTheClassCountsByAtMostTheScale(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		classes := rapid.IntRange(1, 6).Draw(t, "classes")
		scale := rapid.Int64Range(1, maxScale).Draw(t, "scale")
		unit := rapid.SliceOfN(rapid.IntRange(0, classes-1), 1, 40)
		units := rapid.SliceOfN(unit, 1, 10).Draw(t, "units")
		with := classCounts(places(units), classes, scale)
		gone := rapid.IntRange(0, len(units)-1).Draw(t, "gone")
		others := slices.Delete(slices.Clone(units), gone, gone+1)
		without := classCounts(places(others), classes, scale)
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
			t.Fatalf("the unit %v moves the sums by %d (L1) and %v (L2), more than the scale %d", units[gone], l1, math.Sqrt(l2), scale)
		}
		// Rounding takes less than one part of the scale for each record.
		if l1 <= scale-int64(len(units[gone])) {
			t.Fatalf("the unit %v moves the sums by %d, too little for the scale %d", units[gone], l1, scale)
		}
	})
}

func sumOf(t *testing.T, n *Node, classes uint32, scale uint64) []int64 {
	t.Helper()
	m := ask(t, n, countRound("r", 0, classes, scale))
	if m.GetSum() == nil || m.GetSum().Run != "r" || m.GetSum().Round != 0 {
		t.Fatalf("the counts were answered with %v", m)
	}
	return m.GetSum().Values
}

func TestClassCountsOfRecords(t *testing.T) {
	table := smallTable(t, 50, 3)
	want := make([]int64, 2)
	for row := range table.Len() {
		want[table.Label(row)] += 1000
	}
	n := start(t, smallConfig(t, 4), table)
	if got := sumOf(t, n, 2, 1000); !slices.Equal(got, want) {
		t.Errorf("counts %v, want %v", got, want)
	}
}

// personTable has people with 1, 2, 3, ... records, every second of class 1. The
// one feature names the person.
func personTable(t *testing.T, people int) *partition.Table {
	t.Helper()
	table := partition.NewTable(mustSchema(t, "columns:\n  - {name: who, role: unit}\n  - {name: x, kind: continuous, lower: 0, upper: 1}\n  - {name: y, kind: binary}\nlabel: y\n"))
	for p := range people {
		for k := range p + 1 {
			testkit.Must(t,
				table.Append([]float64{math.NaN(), float64(p) / 100, float64(k % 2)}, fmt.Sprintf("p%d", p)))
		}
	}
	return table
}

func TestClassCountsOfPeople(t *testing.T) {
	c := smallConfig(t, 2)
	c.Unit = "who"
	n := start(t, c, personTable(t, 3))
	// One record of class 0; one of each; two of class 0 and one of class 1.
	if got, want := sumOf(t, n, 2, 600), []int64{600 + 300 + 400, 300 + 200}; !slices.Equal(got, want) {
		t.Errorf("counts %v, want %v", got, want)
	}
	// All records of a person are with one teacher.
	home, records := map[float32]int{}, 0
	for teacher, e := range n.examples {
		for _, person := range slices.Concat(e.ByClass...) {
			if other, seen := home[person]; seen && other != teacher {
				t.Errorf("a person's records are with teachers %d and %d", other, teacher)
			}
			home[person] = teacher
			records++
		}
	}
	if records != 6 || len(home) != 3 {
		t.Errorf("the teachers hold %d records of %d people, want 6 of 3", records, len(home))
	}
}

func TestWrongSumsAreRefused(t *testing.T) {
	n := smallNode(t, 2)
	unknown := &conclavev1.Round{Run: "r", Question: &conclavev1.Round_Sum{Sum: &conclavev1.SumQuestion{}}}
	for name, c := range map[string]struct {
		round *conclavev1.Round
		want  string
	}{
		"no statistic":  {unknown, "does not know"},
		"no question":   {&conclavev1.Round{Run: "r"}, "does not know"},
		"other classes": {countRound("r", 0, 3, 10), "counts of 3 classes"},
		"huge classes":  {countRound("r", 0, math.MaxUint32, 10), "classes"},
		"no scale":      {countRound("r", 0, 2, 0), "scale 0"},
		"large scale":   {countRound("r", 0, 2, maxScale+1), "scale"},
		"huge scale":    {countRound("r", 0, 2, math.MaxUint64), "scale"},
	} {
		m := ask(t, n, c.round)
		if m.GetRefusal() == nil || !strings.Contains(m.GetRefusal().Reason, c.want) {
			t.Errorf("%s: answered with %v, want a refusal with %q", name, m, c.want)
		}
	}
}

// places are records of these classes, by unit.
func places(classes [][]int) [][]place {
	units := make([][]place, len(classes))
	for i, of := range classes {
		for _, c := range of {
			units[i] = append(units[i], place{class: c})
		}
	}
	return units
}
