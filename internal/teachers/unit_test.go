package teachers

import (
	"fmt"
	"slices"
	"testing"

	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/internal/question/questiontest"
	"github.com/conclave-dp/conclave/partition"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// someUnits is a table of the first units: records, or people of ten records.
func someUnits(t *testing.T, unit string, units int) *partition.Table {
	t.Helper()
	all := questiontest.SmallTable(t, 400, 1)
	if unit == partition.UnitRecord {
		return all.Subset(questiontest.Rows(units))
	}
	table := partition.NewTable(questiontest.Schema(t, questiontest.SmallSchema, unit))
	for row := range all.Len() {
		if person := row % 40; person < units {
			questiontest.Append(t, table, fmt.Sprint("p", person), slices.Clone(all.Cells(row)))
		}
	}
	return table
}

// One record more, or all records of one person more, trains one teacher
// otherwise and changes the votes of no other, in all rounds: that is what the
// aggregator's noise hides.
func TestAUnitMovesTheVotesOfOneTeacher(t *testing.T) {
	const teachers, queries = 6, 12
	for _, unit := range []string{partition.UnitRecord, questiontest.UnitColumn} {
		for i, vote := range []conclavev1.TeacherSpec_Vote{
			relativeVote, calibratedVote, calibratedVote, plainVote, coinVote,
		} {
			features := []conclavev1.TeacherSpec_Features{plain, standard}[i%2]
			t.Run(fmt.Sprint(unit, vote, features), func(t *testing.T) {
				without := questiontest.Site(t, someUnits(t, unit, 39), teachers)
				with := questiontest.Site(t, someUnits(t, unit, 40), teachers)
				moved := map[int]bool{}
				for number := range uint64(6) {
					r := voteRound("r", number)
					r.vote.Teacher.Vote = vote
					r.vote.Teacher.Features = features
					a := questiontest.Unpack(t, votesOf(t, without, r), teachers, queries, 2)
					b := questiontest.Unpack(t, votesOf(t, with, r), teachers, queries, 2)
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
func weightsOf(site *question.Site, teacher int) []float32 {
	p := current(site).ensemble.State()[0]
	size := len(p.Value) / p.Shape[0]
	return p.Value[teacher*size : (teacher+1)*size]
}
