// Package partitiontest has schemas, tables and files for tests of packages that read tables.
package partitiontest

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/conclave-dp/conclave/partition"
)

// Rows returns a table's cells and units for comparison.
func Rows(t *partition.Table) (cells [][]float64, units []string) {
	for row := range t.Len() {
		cells = append(cells, t.Cells(row))
		units = append(units, t.Unit(row))
	}
	return cells, units
}

// SameTables compares cells and units.
func SameTables(t testing.TB, want, got *partition.Table) {
	t.Helper()
	wantCells, wantUnits := Rows(want)
	gotCells, gotUnits := Rows(got)
	if diff := cmp.Diff(wantCells, gotCells, cmpopts.EquateNaNs()); diff != "" {
		t.Errorf("cells (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(wantUnits, gotUnits); diff != "" {
		t.Errorf("units (-want +got):\n%s", diff)
	}
}

// Indexes returns the numbers from 0 to n-1.
func Indexes(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// Texts returns a table's cells as in CSV.
func Texts(t *partition.Table) (header []string, rows [][]string) {
	s := t.Schema()
	for i := range s.Columns {
		header = append(header, s.Columns[i].Name)
	}
	for row := range t.Len() {
		var line []string
		for i := range s.Columns {
			line = append(line, string(t.AppendCell(nil, row, i)))
		}
		rows = append(rows, line)
	}
	return header, rows
}
