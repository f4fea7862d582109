package node

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/conclave-dp/conclave/internal/kinds"
	"github.com/conclave-dp/conclave/internal/node/rows"
	"github.com/conclave-dp/conclave/internal/question/questiontest"
	"github.com/conclave-dp/conclave/internal/testkit"
	_ "github.com/conclave-dp/conclave/internal/testkit/draws" // the same seed in every run
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/tabular"
)

// The units of each category equal a simple count over the units, whatever the order of the rows.
func TestUnitsByCategory(t *testing.T) {
	schema := map[string]*partition.Schema{
		partition.UnitRecord: questiontest.Schema(t, questiontest.SmallSchema, partition.UnitRecord),
		"person":             questiontest.Schema(t, questiontest.SmallSchema, "person"),
	}
	rapid.Check(t, func(rt *rapid.T) {
		unit := rapid.SampledFrom(slices.Sorted(maps.Keys(schema))).Draw(rt, "unit")
		table := partition.NewTable(schema[unit])
		want := map[string]map[string]bool{}
		for row := range rapid.IntRange(0, 40).Draw(rt, "rows") {
			b, c, person := rapid.IntRange(0, 1).Draw(rt, "b"), rapid.IntRange(0, 2).Draw(rt, "c"),
				fmt.Sprint("p", rapid.IntRange(0, 6).Draw(rt, "person"))
			questiontest.Append(t, table, person, []float64{0.5, float64(b), float64(c), 0})
			of := person
			if unit == partition.UnitRecord {
				of = fmt.Sprint(row)
			}
			for _, category := range []string{fmt.Sprint("b", b), "c" + string("pqr"[c]), "yno"} {
				if want[category] == nil {
					want[category] = map[string]bool{}
				}
				want[category][of] = true
			}
		}
		for _, mixed := range []*partition.Table{table, shuffled(table)} {
			got := map[string]int{}
			count := unitsBy(rows.InMemory{Table: mixed}, protecting(unit).Rows())
			for _, column := range []string{"b", "c", "y"} {
				by, err := count(column)
				if err != nil {
					rt.Fatal(err)
				}
				for category, n := range by {
					got[column+category] = n
				}
			}
			if len(got) != len(want) {
				rt.Fatalf("counted %v, want those of %v", got, want)
			}
			for category, units := range want {
				if got[category] != len(units) {
					rt.Fatalf("%d units of %s, want %d", got[category], category, len(units))
				}
			}
		}
	})
	count := unitsBy(rows.InMemory{Table: partition.NewTable(schema["person"])}, protecting("person").Rows())
	for _, column := range []string{"x", "person", "none"} {
		if by, err := count(column); err == nil {
			t.Errorf("column %s has %v", column, by)
		}
	}
}

// protecting is a configuration with a privacy unit.
func protecting(unit string) (c Config) {
	c.Unit = unit
	return c
}

func shuffled(t *partition.Table) *partition.Table {
	return t.Subset(rand.New(rand.NewPCG(1, 1)).Perm(t.Len()))
}

// A node that reads its rows from one or many files counts like one that has them in memory.
func TestUnitsByCategoryOfRowsThatAreRead(t *testing.T) {
	dir := t.TempDir()
	table := questiontest.SmallTable(t, 300, 1)
	want := testkit.Value(unitsBy(rows.InMemory{Table: table}, protecting(partition.UnitRecord).Rows())("c"))
	c := smallConfig(t, 4)
	c.Schema = filepath.Join(dir, "schema.yaml")
	testkit.Must(t, os.WriteFile(c.Schema, []byte(questiontest.SmallSchema), 0o600))
	write := func(name string, table *partition.Table) {
		var csv bytes.Buffer
		testkit.Must(t, tabular.WriteCSV(&csv, table))
		testkit.Must(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
		testkit.Must(t, os.WriteFile(filepath.Join(dir, name), csv.Bytes(), 0o600))
	}
	write("all.csv", table)
	for i := range 3 {
		var rows []int
		for row := i; row < table.Len(); row += 3 {
			rows = append(rows, row)
		}
		write(fmt.Sprintf("parts/%d.csv", i), table.Subset(rows))
	}
	for _, data := range []string{"all.csv", "parts"} {
		c.Data = filepath.Join(dir, data)
		f, _, err := testkit.Value(ReadSite(c, kinds.All(), nil)).Facts()
		testkit.Must(t, err)
		if by := testkit.Value(f.UnitsBy("c")); !maps.Equal(by, want) || len(by) != 3 {
			t.Errorf("%s has %v, want %v", data, by, want)
		}
	}
}
