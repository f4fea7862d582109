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

// Shares of a file are disjoint and cover it, wherever they are cut, and so are shards. Units stay whole, and an added
// record moves no other.
func TestSharesAndShards(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawtest.Schema(t)
		table := drawtest.Table(t, s, 1, 30)
		file := strings.Join(lines(t, table), "")
		cuts := []float64{0, rapid.Float64Range(0.01, 0.99).Draw(t, "cut"), 1}
		var shares []*partition.Table
		for i := range cuts[1:] {
			part, err := tabular.DecodeCSV(s, strings.NewReader(file), "t.csv",
				tabular.Options{From: cuts[i], To: cuts[i+1]})
			if err == nil {
				shares = append(shares, part)
			} else if !strings.Contains(err.Error(), "no row belongs") {
				t.Fatal(err)
			}
		}
		divides(t, table, shares)
		if shards, err := table.Shards(rapid.IntRange(1, 4).Draw(t, "shards")); err == nil {
			divides(t, table, shards)
		}
		positions := partition.SharePositions(table)
		smaller := partition.SharePositions(table.Subset(partitiontest.Indexes(table.Len() - 1)))
		if diff := cmp.Diff(positions[:len(smaller)], smaller); diff != "" {
			t.Fatalf("the last record moves others (-with +without):\n%s", diff)
		}
	})
}

// divides checks that each row of a table is in one of the parts, and all rows of a unit in the same one.
func divides(t *rapid.T, table *partition.Table, parts []*partition.Table) {
	whole, units := make(map[string]int), make(map[string]int)
	for row := range table.Len() {
		whole[content(table, row)]++
	}
	for i, part := range parts {
		for row := range part.Len() {
			whole[content(part, row)]--
			if table.Schema().UnitColumn() >= 0 {
				if from, seen := units[part.Unit(row)]; seen && from != i {
					t.Fatalf("a unit is in the parts %d and %d", from, i)
				}
				units[part.Unit(row)] = i
			}
		}
	}
	for record, n := range whole {
		if n != 0 {
			t.Fatalf("%d copies of a record are lost (or too many, if negative): %s", n, record)
		}
	}
}

// Each shard has its part of a share.
func TestShardsAreIndependentOfShares(t *testing.T) {
	table := partition.NewTable(partitiontest.Schema(t, "columns: [{name: x, kind: integer, lower: 0, upper: 9999}]"))
	for i := range 9000 {
		testkit.Must(t, table.Append([]float64{float64(i)}, ""))
	}
	shards, err := table.Shards(3)
	testkit.Must(t, err)
	for i, shard := range shards {
		last := 0
		for _, at := range partition.SharePositions(shard) {
			if at >= 0.9 {
				last++
			}
		}
		// The hash is fixed. By chance these numbers have the deviations 45 and 16.
		if n := shard.Len(); n < 2700 || n > 3300 || last < 200 || last > 400 {
			t.Errorf("shard %d has %d rows, and %d of the last tenth; want about 3000 and 300", i, n, last)
		}
	}
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
