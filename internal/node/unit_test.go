package node

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// withKeyOf starts a node on other records with the key of the first.
func withKeyOf(t *testing.T, first *Node, table *partition.Table) *Node {
	t.Helper()
	c := first.cfg
	c.State = t.TempDir()
	key, err := os.ReadFile(filepath.Join(first.cfg.State, "partition.key"))
	testkit.Must(t, err)
	testkit.Must(t, os.WriteFile(filepath.Join(c.State, "partition.key"), key, 0o600))
	return start(t, c, table)
}

// someUnits is a table of the first n units: records, or people of ten records.
func someUnits(t *testing.T, unit string, n int) *partition.Table {
	t.Helper()
	all := smallTable(t, 400, 1)
	if unit == partition.UnitRecord {
		rows := make([]int, n)
		for i := range rows {
			rows[i] = i
		}
		return all.Subset(rows)
	}
	table := partition.NewTable(mustSchema(t, strings.Replace(smallSchema, "columns:\n", "columns:\n  - {name: who, role: unit}\n", 1)))
	for row := range all.Len() {
		if person := row % 40; person < n {
			testkit.Must(t, table.Append(append([]float64{math.NaN()}, all.Cells(row)...), fmt.Sprint("p", person)))
		}
	}
	return table
}

// One record more, or all records of one person more, trains one teacher
// otherwise and changes the votes of no other, in all rounds: that is what the
// aggregator's noise hides.
func TestAUnitMovesTheVotesOfOneTeacher(t *testing.T) {
	const teachers, queries = 6, 12
	for _, unit := range []string{partition.UnitRecord, "who"} {
		for i, vote := range []conclavev1.TeacherSpec_Vote{relativeVote, calibratedVote, calibratedVote, plainVote, coinVote} {
			features := []conclavev1.TeacherSpec_Features{conclavev1.TeacherSpec_FEATURES_PLAIN, conclavev1.TeacherSpec_FEATURES_STANDARD}[i%2]
			t.Run(fmt.Sprint(unit, vote, features), func(t *testing.T) {
				c := smallConfig(t, teachers)
				c.Unit = unit
				without := start(t, c, someUnits(t, unit, 39))
				with := withKeyOf(t, without, someUnits(t, unit, 40))
				moved := map[int]bool{}
				for number := range uint64(6) {
					r := voteRound("r", number)
					r.GetVote().Teacher.Vote = vote
					r.GetVote().Teacher.Features = features
					a := unpack(t, votesOf(t, without, r), teachers, queries, 2)
					b := unpack(t, votesOf(t, with, r), teachers, queries, 2)
					for i := range teachers {
						if rowText(a, i, queries) != rowText(b, i, queries) {
							moved[i] = true
						}
					}
				}
				trained := map[int]bool{}
				for i := range teachers {
					if !slices.Equal(weightsOf(without, i), weightsOf(with, i)) {
						trained[i] = true
					}
				}
				if want := map[bool]int{true: 0, false: 1}[vote == coinVote]; len(trained) != want {
					t.Errorf("%d teachers were trained otherwise, want %d", len(trained), want)
				}
				for i := range moved {
					if !trained[i] {
						t.Errorf("teacher %d votes otherwise", i)
					}
				}
			})
		}
	}
}

// weightsOf returns the weights of one teacher.
func weightsOf(n *Node, teacher int) []float32 {
	p := n.current.ensemble.State()[0]
	size := len(p.Value) / p.Shape[0]
	return p.Value[teacher*size : (teacher+1)*size]
}
