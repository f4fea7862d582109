package partition_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/tabular"
)

const visitsSchema = `columns:
  - {name: person, kind: categorical, role: unit}
  - {name: x, kind: continuous, lower: 0, upper: 1000}
`

// visits are rows of persons, two or three of each.
func visits(t *rapid.T, persons int) string {
	var b strings.Builder
	b.WriteString("person,x\n")
	for i := range persons {
		for j := range rapid.IntRange(1, 3).Draw(t, "rows") {
			fmt.Fprintf(&b, "p%d,%d.%d\n", i, i, j)
		}
	}
	return b.String()
}

func lines(t *rapid.T, table *partition.Table) []string {
	var b bytes.Buffer
	if err := tabular.WriteCSV(&b, table); err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")[1:]
}

// Shards have every row once, no person twice, are the shares that a configuration can
// name, and a person who is added changes one of them.
func TestShards(t *testing.T) {
	schema, err := partition.ParseSchema([]byte(visitsSchema))
	testkit.Must(t, err)
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 5).Draw(t, "shards")
		text := visits(t, 60)
		read := func(text string, o tabular.Options) *partition.Table {
			table, err := tabular.DecodeCSV(schema, strings.NewReader(text), "visits", o)
			if err != nil {
				t.Fatal(err)
			}
			return table
		}
		whole := read(text, tabular.Options{})
		shards, err := whole.Shards(n)
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		of := map[string]int{}
		for i, shard := range shards {
			all = append(all, lines(t, shard)...)
			for row := range shard.Len() {
				if before, met := of[shard.Unit(row)]; met && before != i {
					t.Fatalf("%s is in the shards %d and %d", shard.Unit(row), before, i)
				}
				of[shard.Unit(row)] = i
			}
			share := tabular.Options{From: float64(i) / float64(n), To: float64(i+1) / float64(n)}
			if diff := cmp.Diff(lines(t, read(text, share)), lines(t, shard)); diff != "" {
				t.Fatalf("shard %d of %d is not the share %v: %s", i, n, share, diff)
			}
		}
		want := lines(t, whole)
		slices.Sort(all)
		slices.Sort(want)
		if diff := cmp.Diff(want, all); diff != "" {
			t.Fatal(diff)
		}
		more, err := read(text+"somebody,7\nsomebody,8\n", tabular.Options{}).Shards(n)
		if err != nil {
			t.Fatal(err)
		}
		changed := 0
		for i := range shards {
			if !cmp.Equal(lines(t, shards[i]), lines(t, more[i])) {
				changed++
			}
		}
		if changed != 1 {
			t.Fatalf("one more person changed %d of %d shards", changed, n)
		}
	})
}

func TestShardsThatCannotBe(t *testing.T) {
	schema, err := partition.ParseSchema([]byte(visitsSchema))
	testkit.Must(t, err)
	table, err := tabular.DecodeCSV(schema, strings.NewReader("person,x\na,1\na,2\n"), "visits", tabular.Options{})
	testkit.Must(t, err)
	for n, want := range map[int]string{0: "ask for 1 or more", 2: "has no row; ask for fewer shards"} {
		if _, err := table.Shards(n); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%d shards: error %v, want %q", n, err, want)
		}
	}
}
