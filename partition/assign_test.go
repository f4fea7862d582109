package partition_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/conclave-dp/conclave/internal/testkit"
	_ "github.com/conclave-dp/conclave/internal/testkit/draws" // the same seed in every run
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/partitiontest"
	"github.com/conclave-dp/conclave/partition/partitiontest/drawtest"
	"github.com/conclave-dp/conclave/partition/tabular"
)

// content is a row as text; equal records have equal text.
func content(t *partition.Table, row int) string {
	return fmt.Sprint(t.Cells(row), t.Unit(row))
}

// placement counts records by content and partition. It treats the table as a multiset, so equal records are
// interchangeable.
func placement(t *partition.Table, a *partition.Assignment) map[string]int {
	out := make(map[string]int)
	for row, p := range a.Of {
		out[fmt.Sprint(content(t, row), " in ", p)]++
	}
	return out
}

func drawKey(t *rapid.T) partition.Key {
	var key partition.Key
	copy(key[:], rapid.SliceOfN(rapid.Byte(), len(key), len(key)).Draw(t, "key"))
	return key
}

// assignAll is Assign without the lower bound on the number of units, the only check that depends on other records.
func assignAll(t *rapid.T, key partition.Key, table *partition.Table, partitions int,
	unit string) *partition.Assignment {
	a, err := partition.Assign(key, table, partitions, unit)
	if err != nil && !errors.Is(err, partition.ErrTooManyPartitions) {
		t.Fatal(err)
	}
	return a
}

func drawUnit(t *rapid.T, s *partition.Schema) string {
	if s.UnitColumn() >= 0 && rapid.Bool().Draw(t, "by unit column") {
		return "who"
	}
	return partition.UnitRecord
}

// Partitions are disjoint and cover the table, assigning again gives the same result, and a unit has one partition.
func TestPartitionsAreDisjointStableAndCover(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawtest.Schema(t)
		unit := drawUnit(t, s)
		table := drawtest.Table(t, s, 1, 30)
		key := drawKey(t)
		partitions := rapid.IntRange(1, 8).Draw(t, "partitions")
		a := assignAll(t, key, table, partitions, unit)
		if a == nil {
			return
		}
		if len(a.Of) != table.Len() {
			t.Fatalf("%d of %d rows have a partition", len(a.Of), table.Len())
		}
		for row, p := range a.Of {
			if p < 0 || p >= partitions {
				t.Fatalf("row %d is in partition %d of %d", row, p, partitions)
			}
		}
		if diff := cmp.Diff(a, assignAll(t, key, table, partitions, unit)); diff != "" {
			t.Fatalf("assigning again (-first +second):\n%s", diff)
		}
		if unit != partition.UnitRecord {
			home := make(map[string]int)
			for row, p := range a.Of {
				if first, seen := home[table.Unit(row)]; seen && first != p {
					t.Fatalf("a unit is in partitions %d and %d", first, p)
				}
				home[table.Unit(row)] = p
			}
		}
		// The order of the rows does not matter.
		order := rapid.Permutation(partitiontest.Indexes(table.Len())).Draw(t, "order")
		shuffled := table.Subset(order)
		if diff := cmp.Diff(placement(table, a), placement(shuffled,
			assignAll(t, key, shuffled, partitions, unit))); diff != "" {
			t.Fatalf("in another order (-first +second):\n%s", diff)
		}
	})
}

// Adding one record, even one equal to others, moves no other record. Read backwards, neither does removing one.
func TestOtherRecordsDoNotMove(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawtest.Schema(t)
		unit := drawUnit(t, s)
		larger := drawtest.Table(t, s, 2, 30)
		key := drawKey(t)
		partitions := rapid.IntRange(1, 8).Draw(t, "partitions")
		gone := rapid.IntRange(0, larger.Len()-1).Draw(t, "removed row")
		smaller := larger.Subset(slices.Delete(partitiontest.Indexes(larger.Len()), gone, gone+1))
		with, without := assignAll(t, key, larger, partitions, unit), assignAll(t, key, smaller, partitions, unit)
		if with == nil || without == nil {
			return
		}
		before, after := placement(smaller, without), placement(larger, with)
		moved := 0
		for place, n := range after {
			moved += n - before[place]
			if n < before[place] {
				t.Fatalf("a record left its partition when another came")
			}
			delete(before, place)
		}
		if len(before) > 0 || moved != 1 {
			t.Fatalf("adding one record changed %d places", moved+len(before))
		}
	})
}

// Equal records are separate units and spread over the partitions.
func TestEqualRecordsSpread(t *testing.T) {
	s := partitiontest.Schema(t, "columns:\n  - {name: a, kind: binary}\n")
	table := partition.NewTable(s)
	for range 4000 {
		testkit.Must(t, table.Append([]float64{1}, ""))
	}
	a, err := partition.Assign(partition.Key{7}, table, 4, partition.UnitRecord)
	testkit.Must(t, err)
	for p, n := range sizes(a) {
		// The expected number is 1000 with a standard deviation of 27.
		if n < 850 || n > 1150 {
			t.Errorf("partition %d has %d of 4000 equal records", p, n)
		}
	}
}

// The parsed value counts, not its spelling.
func TestSpellingDoesNotMove(t *testing.T) {
	s := partitiontest.Schema(t, "columns:\n  - {name: id, kind: integer, lower: 0, upper: 99, role: unit}\n  - {name:"+
		" a, kind: continuous, lower: -5, upper: 5, nullable: true}\n")
	var want *partition.Assignment
	for _, text := range []string{"id,a\n1,0\n2,1\n3,\n", "a,id\n-0.0,01\n1.00,2.0\n,3e0\n"} {
		table, err := tabular.DecodeCSV(s, strings.NewReader(text), "t.csv", tabular.Options{})
		testkit.Must(t, err)
		for _, unit := range []string{partition.UnitRecord, "id"} {
			a, err := partition.Assign(partition.Key{7}, table, 3, unit)
			testkit.Must(t, err)
			if unit == partition.UnitRecord {
				if want == nil {
					want = a
				}
				if diff := cmp.Diff(want, a); diff != "" {
					t.Errorf("(-first +second):\n%s", diff)
				}
			}
		}
		if table.Unit(1) != "2" {
			t.Errorf("unit %q, want 2", table.Unit(1))
		}
	}
}

// Another key gives other partitions.
func TestKeyDecides(t *testing.T) {
	s := partitiontest.Clinic(t)
	table := partition.NewTable(s)
	for i := range 200 {
		if err := table.Append([]float64{math.NaN(), 0, float64(i % 100), math.NaN(), 3, math.NaN(), math.NaN(), 1},
			fmt.Sprint("p", i)); err != nil {
			t.Fatal(err)
		}
	}
	for _, unit := range []string{partition.UnitRecord, "patient"} {
		a, err := partition.Assign(partition.Key{1}, table, 10, unit)
		testkit.Must(t, err)
		b, err := partition.Assign(partition.Key{2}, table, 10, unit)
		testkit.Must(t, err)
		same := 0
		for row := range a.Of {
			if a.Of[row] == b.Of[row] {
				same++
			}
		}
		if same > 60 { // 20 expected
			t.Errorf("unit %s: %d of 200 rows are in the same partition under another key", unit, same)
		}
	}
}

func TestAssignRefuses(t *testing.T) {
	s := partitiontest.Clinic(t)
	table, err := tabular.ReadCSV(s, partitiontest.File("clinic", "visits.csv"), tabular.Options{})
	testkit.Must(t, err)
	for _, tc := range []struct {
		partitions int
		unit, want string
		tooMany    bool
	}{
		{0, partition.UnitRecord, "at least 1", false},
		{-3, partition.UnitRecord, "at least 1", false},
		{7, partition.UnitRecord, "fewer teachers", true},
		{5, "patient", "fewer teachers", true},
		{2, "ward", `unit column is "patient"`, false},
		{2, "", `unit column is "patient"`, false},
	} {
		_, err := partition.Assign(partition.Key{1}, table, tc.partitions, tc.unit)
		if err == nil || !strings.Contains(err.Error(), tc.want) ||
			errors.Is(err, partition.ErrTooManyPartitions) != tc.tooMany {
			t.Errorf("%d partitions by %q: error %v, want one with %q", tc.partitions, tc.unit, err, tc.want)
		}
	}
	for unit, partitions := range map[string]int{partition.UnitRecord: 6, "patient": 4} { // as many partitions as units
		if _, err := partition.Assign(partition.Key{1}, table, partitions, unit); err != nil {
			t.Errorf("%d partitions by %q: %v", partitions, unit, err)
		}
	}
	plain := partition.NewTable(partitiontest.Schema(t, "columns:\n  - {name: a, kind: binary}\n"))
	if _, err := partition.Assign(partition.Key{1}, plain, 1, "a"); err == nil ||
		!strings.Contains(err.Error(), "no column of role unit") {
		t.Errorf("a schema without unit: %v", err)
	}
	if _, err := partition.Assign(partition.Key{1}, plain, 1, partition.UnitRecord); !errors.Is(err,
		partition.ErrTooManyPartitions) {
		t.Errorf("an empty table: %v", err)
	}
}

// A record's share is independent of its partition: within one share the partitions are as even as in the whole file.
func TestSharesAndPartitionsAreIndependent(t *testing.T) {
	s := partitiontest.Schema(t, "columns:\n  - {name: a, kind: integer, lower: 0, upper: 100000}\n")
	var text strings.Builder
	text.WriteString("a\n")
	for i := range 8000 {
		fmt.Fprintln(&text, i)
	}
	half, err := tabular.DecodeCSV(s, strings.NewReader(text.String()), "t.csv", tabular.Options{To: 0.5})
	testkit.Must(t, err)
	a, err := partition.Assign(partition.Key{9}, half, 4, partition.UnitRecord)
	testkit.Must(t, err)
	for p, n := range sizes(a) {
		if n < 850 || n > 1150 { // 1000 expected, standard deviation about 29
			t.Errorf("partition %d has %d rows", p, n)
		}
	}
}

// sizes returns the number of rows in each partition.
func sizes(a *partition.Assignment) []int {
	n := make([]int, a.Partitions)
	for _, p := range a.Of {
		n[p]++
	}
	return n
}
