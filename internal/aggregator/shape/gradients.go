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

// gradientSum asks every node for the sum of its teachers' clipped gradients at
// the records of a round, all of them one vector. The release is the sum over all
// nodes with discrete Gaussian noise.
//
// Why this is private: a privacy unit is in the partition of one teacher. With the
// unit or without it that teacher's vector has an L2 norm of at most bound, and
// the other vectors are the same, so the sum moves by at most 2 bound, however
// many records and directions the vector has: one Gaussian release of that
// sensitivity. That each teacher's norm was kept is the node's part of the
// guarantee; that their sum is no longer than so many vectors can make is checked.
type gradientSum struct {
	entries  int
	bound    int64
	teachers uint32 // of the run
	sum      *gnmax.GaussianSum
}

func newGradientSum(q *conclavev1.GradientSum, planned privacy.Planned, run *spec.Spec, allowCoin bool) (*gradientSum,
	error) {
	if planned.Mechanism.Kind != privacy.Gaussian {
		return nil, fault.Invalidf("run %q: %w", run.PB.GetName(), spec.OtherMechanism(planned, privacy.Gaussian))
	}
	records, features, err := checkBatch(q, run, allowCoin)
	if err != nil {
		return nil, err
	}
	if v := q.GetTeacher().GetVote(); v != conclavev1.TeacherSpec_VOTE_GRADIENT &&
		v != conclavev1.TeacherSpec_VOTE_COIN {
		return nil, fault.Invalidf("the round asks for gradients and teacher.vote is %v; use gradient", v)
	}
	each, err := gradientLength(q.GetTeacher(), features)
	if err != nil {
		return nil, err
	}
	if k := q.GetProjection().GetDirections(); k > 0 {
		if int64(k) > int64(each) {
			return nil, fault.Invalidf("gradients of %d features are projected to %d directions; use 0 to %d", each, k,
				each)
		}
		each = int(k)
	}
	s := &gradientSum{entries: records * each, bound: int64(q.GetBound()), teachers: run.PB.GetTeachers()}
	switch {
	case s.entries > maxHistogram:
		return nil, fault.Invalidf("gradients of %d records in %d numbers are more than %d; ask about fewer records "+
			"in a round, or project them", records, each, maxHistogram)
	case q.GetBound() < spec.MinBound || q.GetBound() > spec.MaxBound:
		return nil, fault.Invalidf("the fixed-point bound of gradients is %d; use %d to %d", q.GetBound(),
			spec.MinBound, spec.MaxBound)
	case !(q.GetClip() >= 0) || math.IsInf(q.GetClip(), 0):
		return nil, fault.Invalidf("gradients are clipped at %v; use a number above 0, or 0 to make all of them "+
			"alike in length", q.GetClip())
	}
	if s.sum, err = spec.GaussianSum(planned, 2*s.bound); err != nil {
		return nil, fmt.Errorf("run %q: %w", run.PB.GetName(), err)
	}
	return s, nil
}

func (q *gradientSum) Length() int { return q.entries }

func (q *gradientSum) Fits(uint32) error { return nil }

func (q *gradientSum) Read(answer *conclavev1.WorkRequest, teachers uint32) ([]int64, error) {
	values, err := sumOf(answer, q.entries)
	if err != nil {
		return nil, err
	}
	// No overflow: entries are below 2^40, there are at most 2^17 of them, and
	// float64 errs by less than the slack.
	longest := float64(teachers) * float64(q.bound)
	var squares float64
	for i, v := range values {
		if float64(v) > longest || float64(v) < -longest {
			return nil, fault.OutOfRangef("entry %d of the sum is larger than %d teachers can make it", i, teachers)
		}
		squares += float64(v) * float64(v)
	}
	if squares > longest*longest*(1+1e-9) {
		return nil, fault.OutOfRangef("the sum is longer than %d teachers can make it", teachers)
	}
	return values, nil
}

func (q *gradientSum) Queries() int64 { return 1 }

// limit bounds a released entry on both sides: beyond 64 standard deviations of
// noise no draw will ever be, and holding it there would cost nothing.
func (q *gradientSum) limit() int64 {
	return int64(q.teachers)*q.bound + int64(64*q.sum.Sigma().Float())
}

func (q *gradientSum) Largest() int { return releaseFrame + q.entries*signedBytes(q.limit()) }

func (q *gradientSum) Answer(src *gnmax.Source, counts []int64, r *conclavev1.Release) (int64, error) {
	return noisySum(src, q.sum, counts, q.bound, q.limit(), r)
}

// noisySum releases a sum in a fixed-point unit with noise on each entry, held within a limit
// on both sides, which works on what is private already. One release pays for the whole
// vector.
func noisySum(src *gnmax.Source, sum *gnmax.GaussianSum, counts []int64, unit, limit int64,
	r *conclavev1.Release) (int64, error) {
	noisy, err := sum.Release(src, counts)
	if err != nil {
		return 0, fmt.Errorf("draw a noisy sum: %w", err)
	}
	for i, v := range noisy {
		noisy[i] = min(max(v, -limit), limit)
	}
	r.Answer = &conclavev1.Release_Sum{Sum: &conclavev1.NoisySum{Values: noisy, Scale: uint64(unit)}}
	return 1, nil
}
