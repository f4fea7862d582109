package questiontest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
)

// SmallSchema has five features, the first a number, and two classes.
const SmallSchema = `columns:
  - {name: x, kind: continuous, lower: 0, upper: 1}
  - {name: b, kind: binary}
  - {name: c, kind: categorical, categories: [p, q, r]}
  - {name: y, kind: categorical, categories: [no, yes]}
label: y
`

// SmallFeatures is the width of an encoded record of SmallSchema.
const SmallFeatures = 5

// UnitColumn is the column that names the privacy unit, in schemas that have one.
const UnitColumn = "who"

// Schema parses a schema. If the unit is not the record, it gets a first column of that name.
func Schema(t testing.TB, text, unit string) *partition.Schema {
	t.Helper()
	if unit != partition.UnitRecord {
		text = strings.Replace(text, "columns:\n", "columns:\n  - {name: "+unit+", role: unit}\n", 1)
	}
	s, err := partition.ParseSchema([]byte(text))
	testkit.Must(t, err)
	return s
}

// SmallTable draws records of SmallSchema; those of class yes have larger x.
func SmallTable(t testing.TB, rows int, seed uint64) *partition.Table {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 0))
	table := partition.NewTable(Schema(t, SmallSchema, partition.UnitRecord))
	for range rows {
		y := float64(rng.IntN(2))
		testkit.Must(t,
			table.Append([]float64{(rng.Float64() + y) / 2, float64(rng.IntN(2)), float64(rng.IntN(3)), y}, ""))
	}
	return table
}

// SmallUnits makes the records of those units, of the given number, that belong: one record each, or people with 1
// to 9.
func SmallUnits(t testing.TB, unit string, units int, belongs func(unit int) bool) *partition.Table {
	t.Helper()
	all, at := SmallTable(t, 9*units, 1), 0
	return Units(t, Schema(t, SmallSchema, unit), units, belongs, func(*rand.Rand) []float64 {
		at++
		return slices.Clone(all.Cells(at - 1))
	})
}

// Units makes the records of those of n units that belong: one record each, or people with 1 to 9 if the schema has a
// unit column. Each unit has a generator of its own, from which cells draws a record without its unit.
func Units(t testing.TB, schema *partition.Schema, n int, belongs func(unit int) bool,
	cells func(*rand.Rand) []float64) *partition.Table {
	t.Helper()
	table := partition.NewTable(schema)
	for u := range n {
		rng := rand.New(rand.NewPCG(uint64(u), 5))
		records := 1
		if schema.UnitColumn() >= 0 {
			records += u % 9
		}
		for range records {
			if of := cells(rng); belongs(u) {
				Append(t, table, fmt.Sprint("p", u), of)
			}
		}
	}
	return table
}

// Append adds a record to a table; cells does not include the unit.
func Append(t testing.TB, table *partition.Table, unit string, cells []float64) {
	t.Helper()
	if table.Schema().UnitColumn() < 0 {
		unit = ""
	} else {
		cells = append([]float64{math.NaN()}, cells...)
	}
	testkit.Must(t, table.Append(cells, unit))
}

// Images draws images of two classes.
func Images(t testing.TB, height, width, channels, rows int) *partition.Table {
	t.Helper()
	pixels := height * width * channels
	table := partition.NewTable(Schema(t, fmt.Sprintf(`format: idx
image: {height: %d, width: %d, channels: %d}
label: y
columns:
  - {name: pixel, kind: integer, lower: 0, upper: 255, repeat: %d}
  - {name: y, kind: categorical, categories: [a, b]}
`, height, width, channels, pixels), partition.UnitRecord))
	rng := rand.New(rand.NewPCG(1, 2))
	for range rows {
		cells := make([]float64, pixels+1)
		for i := range cells {
			cells[i] = float64(rng.IntN(256))
		}
		cells[pixels] = float64(rng.IntN(2))
		testkit.Must(t, table.Append(cells, ""))
	}
	return table
}

// Rows returns the numbers from 0 to n-1.
func Rows(n int) []int {
	rows := make([]int, n)
	for i := range rows {
		rows[i] = i
	}
	return rows
}

// Adversaries are units with records of SmallSchema that are extreme, many, or both.
func Adversaries() []Adversary {
	rng := rand.New(rand.NewPCG(3, 4))
	corner := func(int) []float64 { return []float64{1, 1, 2, 1} }
	return []Adversary{
		{"one record", 1, corner},
		{"700 alike", 700, corner},
		{"300 of corners", 300, func(i int) []float64 {
			return []float64{float64(i & 1), float64(i >> 1 & 1), float64(i % 3), float64(i >> 2 & 1)}
		}},
		{"200 at random", 200, func(int) []float64 {
			return []float64{rng.Float64(), float64(rng.IntN(2)), float64(rng.IntN(3)), float64(rng.IntN(2))}
		}},
	}
}
