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

// maxScored bounds the discriminators that are scored in one pass.
const maxScored = 4096

// scoreSum asks every node for the sums of the scores of several discriminators over its
// records. The sums stay in this process; the release is one selection among them.
//
// Why this is private: a privacy unit adds to each sum a whole number between -bound and
// bound, so that is the sensitivity of every score (2 p - 1 in place of the probability p
// takes the same from all of them, n/2, which selects alike, and halves what a unit can
// change). What generated records score is public. So each selection is an exponential
// mechanism of the epsilon that the run was opened with, however often the sums are used;
// see [gnmax.ExponentialMechanism]. That nodes keep to the bound is their part of the
// guarantee.
type scoreSum struct {
	*selection
	discriminators int
	// complements selects among their opposites too, whose sums are the same but for the
	// sign: a unit changes them by no more.
	complements bool
}

func newScoreSum(q *conclavev1.ScoreSum, number uint64, planned privacy.Planned, run *spec.Spec,
	allowCoin bool) (*scoreSum, error) {
	n := len(q.GetDiscriminators())
	switch {
	case q.GetNothing() && !(allowCoin && run.PB.GetCoinVotes()):
		return nil, fault.Refusedf("sums of nothing are the baseline of local runs that were opened with coin_votes; " +
			"leave out scores.nothing")
	case n == 0 || n > maxScored:
		return nil, fault.Invalidf("the scores of %d discriminators; ask for 1 to %d", n, maxScored)
	case q.GetBound() < spec.MinBound || q.GetBound() > spec.MaxBound:
		return nil, fault.Invalidf("the fixed-point bound of scores is %d; use %d to %d", q.GetBound(), spec.MinBound,
			spec.MaxBound)
	case q.GetSelection().GetScoresRound() != number:
		return nil, fault.Invalidf("round %d sums scores and selects by those of round %d; name its own", number,
			q.GetSelection().GetScoresRound())
	}
	for i, d := range q.GetDiscriminators() {
		weights := d.GetWeights()
		if len(weights) == 0 || len(weights)%4 != 0 || len(weights) > 4*maxWeights {
			return nil, fault.Invalidf("discriminator %d has %d bytes of weights; send 4 for each of 1 to %d weights",
				i+1, len(weights), maxWeights)
		}
		if at := firstNotFinite(weights); at >= 0 {
			return nil, fault.Invalidf("discriminator %d: weight %d is not finite", i+1, at)
		}
	}
	among := n
	if q.GetComplements() {
		among = 2 * n
	}
	s, err := newSelection(q.GetSelection(), among, int64(q.GetBound()), planned, run)
	if err != nil {
		return nil, err
	}
	return &scoreSum{selection: s, discriminators: n, complements: q.GetComplements()}, nil
}

func (q *scoreSum) Length() int { return q.discriminators }

func (q *scoreSum) Answer(src *gnmax.Source, sums []int64, r *conclavev1.Release) (int64, error) {
	return q.selection.Answer(src, q.all(sums), r)
}

// Sums are the sums of everything that is selected among, and the bound of one.
func (q *scoreSum) Sums(sums []int64) ([]int64, int64) { return q.all(sums), q.bound }

func (q *scoreSum) all(sums []int64) []int64 {
	all := slices.Clone(sums)
	if q.complements {
		for _, s := range sums {
			all = append(all, -s)
		}
	}
	return all
}

func (q *scoreSum) Read(answer *conclavev1.WorkRequest, _ uint32) ([]int64, error) {
	return sumOfUnits(answer, q.discriminators, maxUnits*q.bound)
}

// selection selects one of the discriminators whose scores were summed.
type selection struct {
	bound     int64
	records   float64
	expected  []int64
	teachers  uint32 // of the run
	mechanism *gnmax.ExponentialMechanism
}

func newSelection(q *conclavev1.Selection, n int, bound int64, planned privacy.Planned, run *spec.Spec) (*selection,
	error) {
	switch {
	case planned.Mechanism.Kind != privacy.Exponential:
		return nil, fault.Invalidf("run %q: %w", run.PB.GetName(), spec.OtherMechanism(planned, privacy.Exponential))
	case len(q.GetExpected()) != n:
		return nil, fault.Invalidf("a selection among %d discriminators says of %d what they give generated records", n,
			len(q.GetExpected()))
	case q.GetRecords() == 0 || q.GetRecords() > maxUnits:
		return nil, fault.Invalidf("a selection counts on %d privacy units; say 1 to %d, a public number",
			q.GetRecords(), maxUnits)
	}
	for i, e := range q.GetExpected() {
		if e > bound || e < -bound {
			return nil, fault.Invalidf("generated records score %d with discriminator %d, outside -%d to %d: scores "+
				"must be probabilities", e, i+1, bound, bound)
		}
	}
	mechanism, err := gnmax.NewExponential(planned.Mechanism.Epsilon, bound)
	if err != nil {
		return nil, fmt.Errorf("run %q: selections: %w", run.PB.GetName(), err)
	}
	return &selection{
		bound: bound, records: float64(q.GetRecords()), expected: q.GetExpected(), teachers: run.PB.GetTeachers(),
		mechanism: mechanism,
	}, nil
}

func (q *selection) Length() int { return len(q.expected) }

func (q *selection) Read(*conclavev1.WorkRequest, uint32) ([]int64, error) {
	return nil, fmt.Errorf("an answer where nothing was asked")
}

func (q *selection) Fits(uint32) error { return nil }

func (q *selection) Largest() int { return releaseFrame + 16 }

func (q *selection) Queries() int64 { return 1 }

// answer selects. Where not all teachers took part, their share of the records is that of
// the teachers: both are public.
func (q *selection) Answer(src *gnmax.Source, sums []int64, r *conclavev1.Release) (int64, error) {
	records := q.records * float64(r.GetTeachers()) / float64(q.teachers)
	scores := make([]int64, len(sums))
	for j, s := range sums {
		scores[j] = s - int64(math.Round(records*float64(q.expected[j])))
	}
	winner, err := q.mechanism.Select(src, scores)
	if err != nil {
		return 0, fmt.Errorf("select a discriminator: %w", err)
	}
	r.Answer = &conclavev1.Release_Selected{Selected: &conclavev1.Selected{Index: uint32(winner)}}
	return 1, nil
}

// cachedSelection selects by sums that are cached, and asks no node.
type cachedSelection struct {
	*selection
	sums round.Sums
}

// By are the sums.
func (q *cachedSelection) By() round.Sums { return q.sums }
