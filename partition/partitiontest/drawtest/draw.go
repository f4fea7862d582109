// Package drawtest draws schemas and tables for property tests.
package drawtest

import (
	"fmt"
	"math"
	"strings"

	"pgregory.net/rapid"

	"github.com/conclave-dp/conclave/partition"
)

// Schema draws a schema with every sort of column and parses its YAML.
func Schema(t *rapid.T) *partition.Schema {
	var b strings.Builder
	label := rapid.SampledFrom([]string{"none", "binary", "categorical", "number", "date", "code"}).Draw(t, "label")
	if label != "none" {
		b.WriteString("label: y\n")
	}
	b.WriteString("columns:\n")
	if rapid.Bool().Draw(t, "has unit") {
		b.WriteString("  - {name: who, role: unit}\n")
	}
	n := rapid.IntRange(1, 5).Draw(t, "columns")
	for i := range n {
		kind := rapid.SampledFrom([]string{"binary", "categorical", "number", "date", "datetime", "code"}).
			Draw(t, "kind")
		drawColumn(t, &b, fmt.Sprintf("c%d", i), kind, rapid.Bool().Draw(t, "nullable"))
	}
	if rapid.Bool().Draw(t, "has identifier") {
		b.WriteString("  - {name: number, kind: identifier, pattern: \"N-##\"}\n")
	}
	if label != "none" {
		drawColumn(t, &b, "y", label, false)
	}
	s, err := partition.ParseSchema([]byte(b.String()))
	if err != nil {
		t.Fatalf("%v\n%s", err, b.String())
	}
	return s
}

func drawColumn(t *rapid.T, b *strings.Builder, name, kind string, nullable bool) {
	fmt.Fprintf(b, "  - name: %q\n    nullable: %v\n", name, nullable)
	switch kind {
	case "binary":
		b.WriteString("    kind: binary\n")
	case "categorical":
		words := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "1", "1.0", "nan", "x y", " x", "x ",
			`q"r`, "c,d", "é", "#z"}), 1, 6, rapid.ID[string]).Draw(t, "categories")
		fmt.Fprintf(b, "    kind: categorical\n    categories: [")
		for _, w := range words {
			fmt.Fprintf(b, "%q, ", w)
		}
		b.WriteString("]\n")
	case "code":
		prefixes := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"I", "I20", "I20.1", "J", "é", "x y"}), 1, 6,
			rapid.ID[string]).Draw(t, "prefixes")
		fmt.Fprintf(b, "    kind: code\n    prefixes: [%s]\n", strings.Join(prefixes, ", "))
	case "date", "datetime":
		drawDates(t, b, kind)
	default:
		lo := rapid.IntRange(-1000, 1000).Draw(t, "lower")
		hi := lo + rapid.IntRange(1, 100000).Draw(t, "range")
		kind := rapid.SampledFrom([]string{"integer", "continuous"}).Draw(t, "number")
		fmt.Fprintf(b, "    kind: %s\n    lower: %d\n    upper: %d\n", kind, lo, hi)
		if lo >= 0 && rapid.Bool().Draw(t, "log") {
			b.WriteString("    scale: log\n")
		}
		if hi-lo > 10 && rapid.Bool().Draw(t, "clip") {
			fmt.Fprintf(b, "    clip: [%d, %d]\n", lo+1, hi-2)
		}
	}
}

func drawDates(t *rapid.T, b *strings.Builder, kind string) {
	resolutions, layouts := []string{"day", "week", "month", "quarter", "year"},
		[]string{"YYYY-MM-DD", "DD.MM.YYYY", "M/D/YYYY", "YYYYMMDD"}
	if kind == "datetime" {
		resolutions, layouts = append(resolutions, "second", "minute", "hour"),
			[]string{"YYYY-MM-DDThh:mm:ss", "D.M.YYYY hh:mm:ss"}
	}
	first := rapid.IntRange(1900, 2020).Draw(t, "first year")
	last := first + rapid.IntRange(1, 30).Draw(t, "years")
	fmt.Fprintf(b, "    kind: %s\n    lower: %d-01-01\n    upper: %d-12-31\n    resolution: %s\n    format: %q\n", kind,
		first, last, rapid.SampledFrom(resolutions).Draw(t, "resolution"), rapid.SampledFrom(layouts).Draw(t, "format"))
	if rapid.Bool().Draw(t, "clipped") && last > first+2 {
		fmt.Fprintf(b, "    clip: [%d-01-01, %d-01-01]\n", first+1, last)
	}
}

// Table draws a table with from to most rows, some of them equal.
func Table(t *rapid.T, s *partition.Schema, from, most int) *partition.Table {
	table := partition.NewTable(s)
	for n := rapid.IntRange(from, most).Draw(t, "rows"); n > 0; n-- {
		if table.Len() > 0 && rapid.IntRange(0, 3).Draw(t, "repeat") == 0 {
			row := rapid.IntRange(0, table.Len()-1).Draw(t, "of row")
			AppendRow(t, table, table.Cells(row), table.Unit(row))
			continue
		}
		cells, unit := drawRow(t, s)
		AppendRow(t, table, cells, unit)
	}
	return table
}

func AppendRow(t *rapid.T, table *partition.Table, cells []float64, unit string) {
	if err := table.Append(cells, unit); err != nil {
		t.Fatal(err)
	}
}

func drawRow(t *rapid.T, s *partition.Schema) (cells []float64, unit string) {
	for i := range s.Columns {
		c := &s.Columns[i]
		if c.Declared() == partition.Identifier {
			cells = append(cells, math.NaN())
			continue
		}
		if c.Role == partition.RoleUnit {
			unit = rapid.SampledFrom([]string{"p1", "p2", "p3", "p 4", "p,5", "p6", "p7", "p8", "p9"}).Draw(t, "unit")
			cells = append(cells, math.NaN())
			continue
		}
		if c.Nullable && rapid.IntRange(0, 3).Draw(t, "empty") == 0 {
			cells = append(cells, math.NaN())
			continue
		}
		lo, hi := c.Range()
		if c.Kind == partition.Continuous {
			cells = append(cells, rapid.Float64Range(lo, hi).Draw(t, c.Name))
		} else {
			cells = append(cells, float64(rapid.IntRange(int(lo), int(hi)).Draw(t, c.Name)))
		}
	}
	return cells, unit
}
