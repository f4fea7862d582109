package discriminator

import (
	"testing"

	"github.com/conclave-dp/conclave/gnmax"
	"github.com/conclave-dp/conclave/internal/discriminator/discriminatortest"
	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/internal/question/questiontest"
	"github.com/conclave-dp/conclave/partition"
)

// A node with nobody in its sample computes as many gradients as one with a record, and answers
// with zeros.
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
		sum := questiontest.Sum(t, s, GradientSum, discriminatortest.Question(1, 0.5, nil))
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
