package shape

import (
	"fmt"
	"math"
	"slices"

	"github.com/conclave-dp/conclave/gnmax"
	"github.com/conclave-dp/conclave/internal/aggregator/fault"
	"github.com/conclave-dp/conclave/internal/aggregator/round"
	"github.com/conclave-dp/conclave/internal/aggregator/spec"
	"github.com/conclave-dp/conclave/internal/privacy"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// mostCount bounds the sums for selections; see package gnmax. Honest sums are far below it. Others saturate instead
// of being refused, because a refusal would reveal something about them.
const mostCount = int64(1) << 61

// selection selects one of the entries of a sum.
//
// Why this is private: a privacy unit moves each entry, and so each candidate's utility, by at most the vector's
// sensitivity, whatever its norm. The expected values are public. So each selection is an exponential mechanism with
// the charged epsilon, however often the sums are used; see [gnmax.ExponentialMechanism]. Opposites negate the same
// sums, so a unit moves them by no more. The sums stay in this process.
type selection struct {
	records     float64
	expected    []int64
	complements bool
	teachers    uint32 // of the run
	mechanism   *gnmax.ExponentialMechanism
}

// newSelection checks a selection among this many entries. A unit moves each by at most the sensitivity.
func newSelection(
	q *conclavev1.Selection, entries int, sensitivity int64, planned privacy.Planned, run *spec.Spec,
) (*selection, error) {
	among := entries
	if q.GetComplements() {
		among = 2 * entries
	}
	switch {
	case planned.Mechanism.Kind != privacy.Exponential:
		return nil, fault.Invalidf("run %q: %w", run.PB.GetName(), spec.OtherMechanism(planned, privacy.Exponential))
	case len(q.GetExpected()) != among:
		return nil, fault.Invalidf("a selection among %d candidates has %d expected scores", among,
			len(q.GetExpected()))
	case q.GetRecords() == 0 || q.GetRecords() > maxFitted:
		return nil, fault.Invalidf("a selection assumes %d privacy units; use a public number from 1 to %d",
			q.GetRecords(), maxFitted)
	}
	for i, e := range q.GetExpected() {
		if e > sensitivity || e < -sensitivity {
			return nil, fault.Invalidf(
				"the expected score %d of candidate %d of a selection is outside -%d to %d",
				e,
				i+1,
				sensitivity,
				sensitivity,
			)
		}
	}
	mechanism, err := gnmax.NewExponential(planned.Mechanism.Epsilon, sensitivity)
	if err != nil {
		return nil, fmt.Errorf("run %q: selections: %w", run.PB.GetName(), err)
	}
	return &selection{
		records: float64(q.GetRecords()), expected: q.GetExpected(), complements: q.GetComplements(),
		teachers: run.PB.GetTeachers(), mechanism: mechanism,
	}, nil
}

// Answer selects. If only some teachers took part, the same share of records is assumed: both numbers are public.
func (q *selection) Answer(src *gnmax.Source, sums []int64, r *conclavev1.Release) (int64, error) {
	all := slices.Clone(sums)
	if q.complements {
		for _, s := range sums {
			all = append(all, -s)
		}
	}
	records := q.records * float64(r.GetTeachers()) / float64(q.teachers)
	for j, e := range q.expected {
		all[j] = min(max(all[j]-int64(math.Round(records*float64(e))), -mostCount), mostCount)
	}
	winner, err := q.mechanism.Select(src, all)
	if err != nil {
		return 0, fmt.Errorf("select an entry: %w", err)
	}
	r.Answer = &conclavev1.Release_Selected{Selected: &conclavev1.Selected{Index: uint32(winner)}}
	return 1, nil
}

func (q *selection) Queries() int64 { return 1 }

func (q *selection) Largest() int { return releaseFrame + 16 }

// selecting asks nodes for a sum, caches it, and selects by it.
type selecting struct {
	*selection
	vector *vector
}

func newSelecting(
	v *conclavev1.Vector, q *conclavev1.Selection, number uint64, planned privacy.Planned, run *spec.Spec,
) (*selecting, error) {
	if q.GetRound() != number {
		return nil, fault.Invalidf("round %d asks for a sum but selects by that of round %d; use its own round", number,
			q.GetRound())
	}
	sum, err := newVector(v, spec.MaxBound)
	if err != nil {
		return nil, err
	}
	if sum.rate != 1 {
		return nil, fault.Invalidf("a selection by a sum over a sample of rate %v; use rate 1", sum.rate)
	}
	s, err := newSelection(q, sum.entries, sum.sensitivity(), planned, run)
	if err != nil {
		return nil, err
	}
	return &selecting{selection: s, vector: sum}, nil
}

func (q *selecting) Length() int { return q.vector.Length() }

func (q *selecting) Fits(teachers uint32) error { return q.vector.Fits(teachers) }

func (q *selecting) Read(answer *conclavev1.WorkRequest, teachers uint32) ([]int64, error) {
	return q.vector.Read(answer, teachers)
}

// Sums returns the sums to cache, and their sensitivity.
func (q *selecting) Sums(sums []int64) ([]int64, int64) {
	return slices.Clone(sums), q.vector.sensitivity()
}

// cachedSelection selects by cached sums and asks no node.
type cachedSelection struct {
	*selection
	sums round.Sums
}

// By returns the sums.
func (q *cachedSelection) By() round.Sums { return q.sums }

func (q *cachedSelection) Length() int { return len(q.sums.Sums) }

func (q *cachedSelection) Fits(uint32) error { return nil }

func (q *cachedSelection) Read(*conclavev1.WorkRequest, uint32) ([]int64, error) {
	return nil, fmt.Errorf("got an answer without a question")
}
