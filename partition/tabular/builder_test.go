package tabular

import (
	"bytes"
	"errors"
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
)

func manifestOf(t rapid.TB, table *partition.Table, unit string) *partition.Manifest {
	m, err := partition.BuildManifest(partition.Key{1}, "d", "s", "n", table, 1, unit)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// sameManifests compares the manifests of two tables under every unit.
func sameManifests(t rapid.TB, want, got *partition.Table) {
	units := []string{partition.UnitRecord}
	if s := want.Schema(); s.UnitColumn() >= 0 {
		units = append(units, s.Columns[s.UnitColumn()].Name)
	}
	for _, unit := range units {
		if diff := cmp.Diff(manifestOf(t, want, unit), manifestOf(t, got, unit)); diff != "" {
			t.Fatalf("unit %s: %s", unit, diff)
		}
	}
}

// What WriteCSV writes, ReadCSV reads, cell by cell, for any schema and text. A source that gives the
// same rows, in any order of rows and columns, gives the same manifest, and in the same order of
// rows the same table.
func TestEverySourceGivesTheTable(tb *testing.T) {
	rapid.Check(tb, func(t *rapid.T) {
		s := drawtest.Schema(t)
		table := drawtest.Table(t, s, 1, 20)
		csv := written(t, table)
		read, err := DecodeCSV(s, strings.NewReader(csv), "t.csv", Options{})
		if err != nil {
			t.Fatalf("%v\n%s", err, csv)
		}
		partitiontest.SameTables(tb, table, read)
		if again := written(t, read); again != csv {
			t.Fatalf("written otherwise the second time:\n%s\n%s", csv, again)
		}
		header, rows := partitiontest.Texts(table)
		turned := rapid.Permutation(partitiontest.Indexes(len(header))).Draw(t, "columns")
		build := func(order []int) *partition.Table {
			b, err := NewBuilder(s, "t", FromSQL, namedColumns(pick(header, turned)), Options{})
			for _, row := range order {
				err = errors.Join(err, b.Add(pick(rows[row], turned)))
			}
			if err != nil {
				t.Fatal(err)
			}
			return testkit.Value(b.Table())
		}
		built := build(partitiontest.Indexes(len(rows)))
		partitiontest.SameTables(tb, table, built)
		sameManifests(t, table, built)
		sameManifests(t, table, build(rapid.Permutation(partitiontest.Indexes(len(rows))).Draw(t, "rows")))
	})
}

func written(t *rapid.T, table *partition.Table) string {
	var b bytes.Buffer
	if err := WriteCSV(&b, table); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func pick(of []string, order []int) (out []string) {
	for _, i := range order {
		out = append(out, of[i])
	}
	return out
}

// What a source says of a column's cells is refused where no such cell can be the schema's.
func TestKindsOfCellsThatCannotBe(t *testing.T) {
	s := partitiontest.Schema(t, `columns:
  - {name: who, role: unit}
  - {name: dose, kind: continuous, lower: 0, upper: 10}
  - {name: ward, kind: categorical, categories: [north, south]}
  - {name: ill, kind: binary}
`)
	fit := map[string][]CellKind{
		"who":  {Unsaid, Texts, WholeNumbers, Times, Nulls},
		"dose": {Unsaid, Texts, WholeNumbers, Numbers, TruthValues, Nulls},
		"ward": {Unsaid, Texts, WholeNumbers, Times, Nulls},
		"ill":  {Unsaid, Texts, WholeNumbers, Numbers, TruthValues, Nulls},
	}
	words := map[string]string{"who": "identifiers", "dose": "numbers", "ward": "categories", "ill": "0 or 1"}
	for i := range s.Columns {
		for kind := Unsaid; kind <= Unreadable; kind++ {
			columns := namedColumns([]string{"who", "dose", "ward", "ill"})
			columns[i].Kind, columns[i].What = kind, "a list"
			_, err := NewBuilder(s, "t", FromSQL, columns, Options{})
			name := columns[i].Name
			if slices.Contains(fit[name], kind) != (err == nil) {
				t.Errorf("%s, cells of kind %d: %v", name, kind, err)
			}
			if err != nil && !strings.Contains(err.Error(), ", the schema "+words[name]+"; cast it to the "+
				"schema's type") {
				t.Errorf("%s, cells of kind %d: %v", name, kind, err)
			}
		}
	}
}

// A table that would not fit is refused when it gets there.
func TestTableTooLarge(t *testing.T) {
	s := partitiontest.Schema(t, "columns: [{name: x, kind: binary}]")
	b, err := NewBuilder(s, "t", FromSQL, []SourceColumn{{Name: "x", Kind: TruthValues}}, Options{})
	testkit.Must(t, err)
	if b.most != maxTableBytes/8 {
		t.Errorf("%d rows at most", b.most)
	}
	b.most = 2
	for i := range 3 {
		err = b.Add([]string{"1"})
		if (err != nil) != (i == 2) {
			t.Errorf("row %d: %v", i+1, err)
		}
	}
	if !strings.Contains(err.Error(), "row 3: a table of more than 2 rows; divide it among several nodes") {
		t.Error(err)
	}
	if err := b.Add(nil); err == nil {
		t.Error("a row of no cells is taken")
	}
}

// A CSV reader makes a line break of an identifier one byte, and so does every source.
func TestUnitsHaveOneLineBreak(t *testing.T) {
	s := partitiontest.Schema(t, "columns: [{name: who, role: unit}, {name: x, kind: binary}]")
	want, err := DecodeCSV(s, strings.NewReader("who,x\n\"a\r\nb\",1\n"), "t.csv", Options{})
	testkit.Must(t, err)
	b, err := NewBuilder(s, "t", FromSQL, namedColumns([]string{"who", "x"}), Options{})
	testkit.Must(t, err)
	testkit.Must(t, b.Add([]string{"a\r\nb", "1"}))
	got, err := b.Table()
	testkit.Must(t, err)
	partitiontest.SameTables(t, want, got)
	if got.Unit(0) != "a\nb" {
		t.Errorf("unit %q", got.Unit(0))
	}
}
