package shape

import (
	"fmt"

	"github.com/conclave-dp/conclave/gnmax"
	"github.com/conclave-dp/conclave/internal/aggregator/fault"
	"github.com/conclave-dp/conclave/internal/aggregator/spec"
	"github.com/conclave-dp/conclave/internal/privacy"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

const (
	// maxSumEntry bounds what a node may send for one entry: more than 2^53 is
	// no count of anything.
	maxSumEntry = int64(1) << 53
	// maxSumScale bounds the fixed-point unit, so that 2^21 privacy units of
	// one class still stay below maxSumEntry.
	maxSumScale = 1 << 32
)

// ClassCounts asks every node for its number of records of each class, as
// fixed-point numbers to which a privacy unit adds at most `scale` in all. The
// release is the sum with discrete Laplace noise.
//
// Whether a node kept to that bound cannot be seen from outside; that is the
// node's part of the guarantee. What can be seen is refused: negative and
// absurd entries.
type ClassCounts struct {
	classes int
	Scale   uint64
	epsilon float64
}

// sumOf returns the entries of a node's answer, of the length that was asked.
func sumOf(answer *conclavev1.WorkRequest, length int) ([]int64, error) {
	sum := answer.GetSum()
	if sum == nil {
		return nil, fmt.Errorf("votes where a sum was asked")
	}
	if len(sum.GetValues()) > length {
		return nil, fault.Oversizedf("a sum of %d entries where %d were asked", len(sum.GetValues()), length)
	}
	if len(sum.GetValues()) < length {
		return nil, fmt.Errorf("a sum of %d entries where %d were asked", len(sum.GetValues()), length)
	}
	return sum.GetValues(), nil
}

func newClassCounts(c *conclavev1.ClassCounts, planned privacy.Planned, run *spec.Spec) (*ClassCounts, error) {
	if c.GetClasses() == 0 || c.GetClasses() > maxClasses {
		return nil, fault.Invalidf("class_counts.classes is %d; it must be 1 to %d", c.GetClasses(), maxClasses)
	}
	if c.GetScale() == 0 || c.GetScale() > maxSumScale {
		return nil, fault.Invalidf("class_counts.scale is %d; it must be 1 to %d", c.GetScale(), uint64(maxSumScale))
	}
	if planned.Mechanism.Kind != privacy.Laplace {
		return nil, fault.Invalidf("run %q: %w", run.PB.GetName(), spec.OtherMechanism(planned, privacy.Laplace))
	}
	epsilon := planned.Mechanism.Epsilon
	if err := spec.CheckLaplace(int64(c.GetScale()), epsilon); err != nil {
		return nil, fmt.Errorf("class counts of run %q at scale %d: %w; "+
			"lower the scale, or open a run with a larger epsilon for them",
			run.PB.GetName(), c.GetScale(), err)
	}
	return &ClassCounts{classes: int(c.GetClasses()), Scale: c.GetScale(), epsilon: epsilon}, nil
}

func (q *ClassCounts) Length() int { return q.classes }

func (q *ClassCounts) Fits(uint32) error { return nil }

func (q *ClassCounts) Read(answer *conclavev1.WorkRequest, _ uint32) ([]int64, error) {
	values, err := sumOf(answer, q.classes)
	if err != nil {
		return nil, err
	}
	for i, v := range values {
		if v < 0 || v > maxSumEntry {
			return nil, fault.OutOfRangef("entry %d of the sum is out of range 0 to %d", i, maxSumEntry)
		}
	}
	return values, nil
}

func (q *ClassCounts) Queries() int64 { return 1 }

func (q *ClassCounts) Answer(src *gnmax.Source, counts []int64, r *conclavev1.Release) (int64, error) {
	noisy, err := gnmax.LaplaceCounts(src, counts, int64(q.Scale), q.epsilon)
	if err != nil {
		return 0, fmt.Errorf("draw noisy class counts: %w", err)
	}
	r.Answer = &conclavev1.Release_Sum{Sum: &conclavev1.NoisySum{Values: noisy, Scale: q.Scale}}
	return 1, nil
}
