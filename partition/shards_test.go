package partition_test

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/partitiontest"
	"github.com/conclave-dp/conclave/partition/partitiontest/drawtest"
	"github.com/conclave-dp/conclave/partition/tabular"
)

func lines(t *rapid.T, table *partition.Table) []string {
	var b bytes.Buffer
	if err := tabular.WriteCSV(&b, table); err != nil {
		t.Fatal(err)
	}
	return strings.SplitAfter(b.String(), "\n")
}

// Shares of a file are disjoint and cover it, wherever they are cut. Units stay whole, and an added record moves no
// other. Shards equal the shares that a configuration can name.
func TestSharesAndShards(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawtest.Schema(t)
		table := drawtest.Table(t, s, 1, 30)
		file := strings.Join(lines(t, table), "")
		n := rapid.IntRange(1, 4).Draw(t, "shards")
		cuts := []float64{0, rapid.Float64Range(0.01, 0.99).Draw(t, "cut"), 1}
		shards, err := table.Shards(n)
		if err == nil {
			cuts = cuts[:1]
			for i := range n {
				cuts = append(cuts, float64(i+1)/float64(n))
			}
		}
		whole := make(map[string]int)
		for row := range table.Len() {
			whole[content(table, row)]++
		}
		units := make(map[string]int)
		for i := range cuts[1:] {
			part, err := tabular.DecodeCSV(s, strings.NewReader(file), "t.csv",
				tabular.Options{From: cuts[i], To: cuts[i+1]})
			if err != nil {
				if !strings.Contains(err.Error(), "no row belongs") {
					t.Fatal(err)
				}
				continue
			}
			for row := range part.Len() {
				whole[content(part, row)]--
				if s.UnitColumn() >= 0 {
					if from, seen := units[part.Unit(row)]; seen && from != i {
						t.Fatalf("a unit is in the shares %d and %d", from, i)
					}
					units[part.Unit(row)] = i
				}
			}
			if shards != nil {
				if diff := cmp.Diff(lines(t, part), lines(t, shards[i])); diff != "" {
					t.Fatalf("shard %d of %d is not its share (-share +shard):\n%s", i, n, diff)
				}
			}
		}
		for record, n := range whole {
			if n != 0 {
				t.Fatalf("%d copies of a record are lost (or too many, if negative): %s", n, record)
			}
		}
		positions := partition.SharePositions(table)
		smaller := partition.SharePositions(table.Subset(partitiontest.Indexes(table.Len() - 1)))
		if diff := cmp.Diff(positions[:len(smaller)], smaller); diff != "" {
			t.Fatalf("the last record moves others (-with +without):\n%s", diff)
		}
	})
}

func TestShardsThatCannotBe(t *testing.T) {
	table := partition.NewTable(partitiontest.Schema(t, "columns: [{name: who, role: unit}, {name: x, kind: binary}]"))
	testkit.Must(t, table.Append([]float64{math.NaN(), 1}, "a"))
	testkit.Must(t, table.Append([]float64{math.NaN(), 0}, "a"))
	for n, want := range map[int]string{0: "ask for 1 or more", 2: "has no row; ask for fewer shards"} {
		if _, err := table.Shards(n); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%d shards: error %v, want %q", n, err, want)
		}
	}
}
