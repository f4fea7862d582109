package discriminator

import (
	"testing"

	"github.com/conclave-dp/conclave/gnmax"
	"github.com/conclave-dp/conclave/internal/discriminator/discriminatortest"
	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/internal/question/questiontest"
	"github.com/conclave-dp/conclave/partition"
)

// A node with an empty sample computes as many gradients as one with a record, and answers with zeros.
func TestWorkOfSmallSamplesIsAlike(t *testing.T) {
	s := questiontest.Site(t, questiontest.SmallUnits(t, partition.UnitRecord, 60, func(int) bool { return true }), 2)
	for units, want := range map[int]int{
		0: filling, 1: filling, 20: filling, filling: filling, filling + 1: 2 * filling,
	} {
		s.Sample = func(gnmax.Rate) ([]int, error) {
			var sample []int
			for u := range units {
				sample = append(sample, u)
			}
			return sample, nil
		}
		space := question.Memory[clipped](s.Public)
		before := space.work
		q := discriminatortest.Question(1, 0.5, nil)
		sum := questiontest.MustAsk(t, s, GradientSum, q, "r", uint64(units)).Sum
		if got := space.work - before; got != want {
			t.Errorf("%d units: %d records of work, want %d", units, got, want)
		}
		moved := false
		for _, v := range sum {
			moved = moved || v != 0
		}
		if moved != (units > 0) {
			t.Errorf("%d units add up to %v", units, sum)
		}
	}
}

// A unit of very many records takes the time of one of 256, and all of its records have their turn.
func TestLargeUnitsAreCapped(t *testing.T) {
	s := questiontest.Site(t, questiontest.SmallUnits(t, partition.UnitRecord, 60, func(int) bool { return true }), 2)
	var large []question.Place
	for range 20 {
		for _, unit := range s.Units {
			large = append(large, unit...)
		}
	}
	s.Units[0] = large
	s.Sample = func(gnmax.Rate) ([]int, error) { return []int{0}, nil }
	space := question.Memory[clipped](s.Public)
	questiontest.Sum(t, s, GradientSum, discriminatortest.Question(1, 0.5, nil))
	if space.work != mostRecords {
		t.Errorf("%d records of work for a unit of %d, want %d", space.work, len(large), mostRecords)
	}
	unit := make([]question.Place, 3*mostRecords)
	for i := range unit {
		unit[i].At = i
	}
	seen := map[int]bool{}
	for range 200 { // a chance of (2/3)^200 for each to be left out
		of := map[int]bool{}
		for _, r := range some(unit) {
			of[r.At], seen[r.At] = true, true
		}
		if len(of) != mostRecords {
			t.Fatalf("%d different records, want %d", len(of), mostRecords)
		}
	}
	if len(seen) != len(unit) {
		t.Errorf("%d of %d records had their turn", len(seen), len(unit))
	}
}
