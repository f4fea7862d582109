package shape

import (
	"fmt"
	"math"

	"github.com/conclave-dp/conclave/gnmax"
	"github.com/conclave-dp/conclave/internal/aggregator/fault"
	"github.com/conclave-dp/conclave/internal/aggregator/spec"
	"github.com/conclave-dp/conclave/internal/privacy"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// maxUnits exceeds the privacy units of any node, and maxFitted those of any node that answers fits and selections. A
// longer sum is an error of the node.
const (
	maxUnits  = 1 << 27
	maxFitted = 1 << 24
)

// vector is the shape of the sums that nodes answer with. The aggregator reads and adds them up, but does not release
// them.
type vector struct {
	entries    int
	bound      int64 // of one contributor's vector, in the norm
	norm       conclavev1.Vector_Norm
	perTeacher bool
	fitted     bool // for a fit's pass
	rate       float64
	counts     bool // no entry is negative
}

// newVector checks the shape of a sum; largest bounds its bound.
func newVector(v *conclavev1.Vector, largest int64) (*vector, error) {
	switch {
	case v.GetEntries() == 0 || v.GetEntries() > maxEntries:
		return nil, fault.Invalidf("a sum of %d entries; ask for 1 to %d", v.GetEntries(), maxEntries)
	case v.GetBound() == 0 || v.GetBound() > uint64(largest):
		return nil, fault.Invalidf("the bound of a sum is %d steps; use 1 to %d", v.GetBound(), largest)
	case v.GetNorm() < conclavev1.Vector_NORM_L1 || v.GetNorm() > conclavev1.Vector_NORM_EACH:
		return nil, fault.Invalidf("a sum whose bound has the norm %v; use L1, L2 or each", v.GetNorm())
	case v.GetPer() != conclavev1.Vector_PER_UNIT && v.GetPer() != conclavev1.Vector_PER_TEACHER:
		return nil, fault.Invalidf("a sum over %v; use units or teachers", v.GetPer())
	case !(v.GetRate() > 0 && v.GetRate() <= 1):
		return nil, fault.Invalidf("a sum over a sample of rate %v; use a probability, or 1 for all units",
			v.GetRate())
	}
	return &vector{
		entries: int(v.GetEntries()), bound: int64(v.GetBound()), norm: v.GetNorm(),
		perTeacher: v.GetPer() == conclavev1.Vector_PER_TEACHER, rate: v.GetRate(),
		counts: v.GetCounts(),
	}, nil
}

// sensitivity is how far one privacy unit moves the sum, in the norm. A unit is in the partition of one teacher. With
// or without it that teacher's vector is within the bound, and the others are unchanged, so a sum over teachers moves
// by at most twice the bound.
func (q *vector) sensitivity() int64 {
	if q.perTeacher {
		return 2 * q.bound
	}
	return q.bound
}

// units is the largest number of units that a node may have.
func (q *vector) units() int64 {
	if q.fitted {
		return maxFitted
	}
	return maxUnits
}

// most is the largest norm that this many teachers, or any number of units, can produce.
func (q *vector) most(teachers uint32) int64 {
	if q.perTeacher {
		return int64(teachers) * q.bound
	}
	return q.units() * q.bound
}

func (q *vector) Length() int { return q.entries }

func (q *vector) Fits(uint32) error { return nil }

// Read checks what can be checked of a node's sum: its length, and that its contributors can produce it. Clipping
// each contributor to the bound is the node's part of the guarantee.
func (q *vector) Read(answer *conclavev1.WorkRequest, teachers uint32) ([]int64, error) {
	sum := answer.GetSum()
	if sum == nil {
		return nil, fmt.Errorf("got votes, want a sum")
	}
	values := sum.GetValues()
	if len(values) > q.entries {
		return nil, fault.Oversizedf("got a sum of %d entries, want %d", len(values), q.entries)
	}
	if len(values) < q.entries {
		return nil, fmt.Errorf("got a sum of %d entries, want %d", len(values), q.entries)
	}
	// Entries are below 2^60 and at most 2^21 in number: float64 represents the norms with an error below the slack.
	most := q.most(teachers)
	var total, squares float64
	for i, v := range values {
		if v > most || v < -most || q.counts && v < 0 {
			return nil, fault.OutOfRangef("entry %d of the sum is out of range: too large for %s", i,
				q.contributors(teachers))
		}
		total += math.Abs(float64(v))
		squares += float64(v) * float64(v)
	}
	const slack = 1 + 1e-9
	if q.norm == conclavev1.Vector_NORM_L2 && squares > float64(most)*float64(most)*slack ||
		q.norm == conclavev1.Vector_NORM_L1 && total > float64(most)*slack {
		return nil, fault.OutOfRangef("the sum is out of range: its norm is too large for %s", q.contributors(teachers))
	}
	return values, nil
}

func (q *vector) contributors(teachers uint32) string {
	if q.perTeacher {
		return fmt.Sprintf("%d teachers", teachers)
	}
	return fmt.Sprintf("%d units", q.units())
}

// Sum is a sum over the nodes that is released with noise on each entry.
//
// Why this is private: one privacy unit moves the sum by at most the vector's sensitivity in its norm, and the noise
// is drawn for that; see newNoise. The noise does not depend on the answers: fewer contributors, or an empty sample,
// cost no less. The rest of the question is public, because it follows from earlier releases.
type Sum struct {
	*vector
	Noise
	// limit clamps released entries so that the release's size is known beforehand. No draw ever reaches it, and
	// clamping only post-processes a private value.
	limit int64
}

func newSum(v *conclavev1.Vector, planned privacy.Planned, run *spec.Spec) (*Sum, error) {
	sum, err := newVector(v, spec.MaxBound)
	if err != nil {
		return nil, err
	}
	noise, err := newNoise(sum, planned, run)
	if err != nil {
		return nil, err
	}
	return &Sum{vector: sum, Noise: noise, limit: limitOf(sum, noise, run)}, nil
}

func limitOf(v *vector, noise Noise, run *spec.Spec) int64 {
	return v.most(run.PB.GetTeachers()) + int64(min(64*noise.Scale(), 1<<61))
}

// Queries is 1: one release pays for the whole vector.
func (q *Sum) Queries() int64 { return 1 }

// Largest is the largest size of the release's numbers.
func (q *Sum) Largest() int { return releaseFrame + q.entries*signedBytes(q.limit) }

// Answer draws the release.
func (q *Sum) Answer(src *gnmax.Source, counts []int64, r *conclavev1.Release) (int64, error) {
	noisy, err := q.Add(src, counts)
	if err != nil {
		return 0, fmt.Errorf("draw a noisy sum: %w", err)
	}
	for i, v := range noisy {
		noisy[i] = min(max(v, -q.limit), q.limit)
	}
	r.Answer = &conclavev1.Release_Sum{Sum: &conclavev1.NoisySum{Values: noisy, Scale: uint64(q.bound)}}
	return 1, nil
}
