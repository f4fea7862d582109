package teachers

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/internal/question/questiontest"
	"github.com/conclave-dp/conclave/internal/testkit"
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

// One record more, or all records of one person more, trains one teacher otherwise, over all rounds,
// and changes no other's votes; a sum moves by at most twice the bound. That is what the
// aggregator's noise hides.
func TestAUnitMovesOneTeacher(t *testing.T) {
	const teachers = 6
	votes := func(vote conclavev1.TeacherSpec_Vote, features conclavev1.TeacherSpec_Features) func(uint64) *round {
		return func(number uint64) *round {
			r := voteRound("r", number)
			r.vote.Teacher.Vote, r.vote.Teacher.Features = vote, features
			return r
		}
	}
	for _, unit := range []string{partition.UnitRecord, questiontest.UnitColumn} {
		for name, question := range map[string]func(number uint64) *round{
			"relative":            votes(relativeVote, plain),
			"calibrated":          votes(calibratedVote, plain),
			"calibrated standard": votes(calibratedVote, standard),
			"plain standard":      votes(plainVote, standard),
			"coin":                votes(coinVote, plain),
			"gradient votes":      func(number uint64) *round { return gradientRound("r", number) },
			"gradient sum":        func(number uint64) *round { return sumRound("r", number, 0) },
		} {
			t.Run(unit+" "+name, func(t *testing.T) {
				without := questiontest.Site(t, someUnits(t, unit, 39), teachers)
				with := questiontest.Site(t, someUnits(t, unit, 40), teachers)
				moved := map[int]bool{}
				for number := range uint64(6) {
					a, err := ask(without, question(number))
					testkit.Must(t, err)
					b, err := ask(with, question(number))
					testkit.Must(t, err)
					if v := a.Shape.Sum; v != nil {
						distance := 0.0
						for i := range a.Sum {
							distance += float64(a.Sum[i]-b.Sum[i]) * float64(a.Sum[i]-b.Sum[i])
						}
						if math.Sqrt(distance) > float64(2*v.Bound) {
							t.Errorf("the sum moved by %v, want at most %d", math.Sqrt(distance), 2*v.Bound)
						}
						continue
					}
					h := a.Shape.Votes
					x := questiontest.Unpack(t, a.Votes, teachers, h.Queries, h.Classes)
					y := questiontest.Unpack(t, b.Votes, teachers, h.Queries, h.Classes)
					for i := range teachers {
						if rowText(x, i, h.Queries) != rowText(y, i, h.Queries) {
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
				if want := map[bool]int{true: 0, false: 1}[name == "coin"]; len(trained) != want {
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
