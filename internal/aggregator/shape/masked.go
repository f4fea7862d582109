package shape

import (
	"fmt"
	"math"

	"github.com/conclave-dp/conclave/gnmax"
	"github.com/conclave-dp/conclave/internal/aggregator/fault"
	"github.com/conclave-dp/conclave/internal/aggregator/round"
	"github.com/conclave-dp/conclave/internal/aggregator/spec"
	"github.com/conclave-dp/conclave/internal/masking"
	"github.com/conclave-dp/conclave/internal/privacy"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// newMasked parses the question of a masked run's round. The aggregator sees only the noisy sum; see package masking.
func newMasked(r *conclavev1.Round, planned privacy.Planned, run *spec.Spec) (round.Question, error) {
	entries, share, err := masking.Asked(planned, r, *run.Masked)
	if err != nil {
		return nil, fault.Invalidf("run %q: %w", run.PB.GetName(), err)
	}
	m := masked{entries: entries, share: share}
	if asked := r.GetVotes(); asked != nil {
		votes, err := newVotes(asked, planned, run)
		return &maskedVotes{votes, m}, err
	}
	sum, err := newSum(r.GetSum(), planned, run)
	if err != nil {
		return nil, err
	}
	sum.Noise = drawnBySites{run.Masked.Surplus(len(run.Masked.Members)) * sum.Noise.Scale()}
	sum.limit = limitOf(sum.vector, sum.Noise, run)
	return &maskedSum{sum, m}, nil
}

// masked is the common part of all masked questions.
type masked struct {
	entries int
	share   gnmax.Share
}

// Share is the noise that each site adds.
func (q masked) Share() gnmax.Share { return q.share }

// Read checks the length of an answer. Nothing else can be checked, because its entries are uniform.
func (q masked) Read(answer *conclavev1.WorkRequest, _ uint32) ([]int64, error) {
	sum := answer.GetSum()
	switch values := sum.GetValues(); {
	case sum == nil:
		return nil, fmt.Errorf("the answer is not a masked vector")
	case len(values) > q.entries:
		return nil, fault.Oversizedf("got a vector of %d entries, want %d", len(values), q.entries)
	case len(values) < q.entries:
		return nil, fmt.Errorf("got a vector of %d entries, want %d", len(values), q.entries)
	default:
		return values, nil
	}
}

// maskedSum is a sum that is released as opened.
type maskedSum struct {
	*Sum
	masked
}

func (q *maskedSum) Read(answer *conclavev1.WorkRequest, teachers uint32) ([]int64, error) {
	return q.masked.Read(answer, teachers)
}

// maskedVotes are votes whose counts open with noise, in fractions of a vote. The release is computed from these
// counts.
type maskedVotes struct {
	*Votes
	masked
}

func (q *maskedVotes) Read(answer *conclavev1.WorkRequest, teachers uint32) ([]int64, error) {
	return q.masked.Read(answer, teachers)
}

// Answer rounds the noisy counts to votes. The winner is the largest unrounded count, or the first of equal ones.
func (q *maskedVotes) Answer(_ *gnmax.Source, counts []int64, r *conclavev1.Release) (int64, error) {
	out := &conclavev1.NoisyVotes{Classes: uint32(q.classes), Labels: make([]int32, q.asked)}
	if q.whole {
		out.Histogram = make([]int64, q.asked*q.classes)
	}
	for i := range q.asked {
		noisy := counts[i*q.classes : (i+1)*q.classes]
		winner := 0
		for class, v := range noisy {
			if v > noisy[winner] {
				winner = class
			}
			if q.whole {
				votes := math.Round(float64(v) / masking.VoteSteps)
				out.Histogram[i*q.classes+class] = clampNoisyVotes(int64(max(min(votes, 1<<61), -1<<61)))
			}
		}
		out.Labels[i] = int32(winner)
	}
	r.Answer = &conclavev1.Release_Votes{Votes: out}
	return int64(q.asked), nil
}

// drawnBySites is noise that the sum already contains.
type drawnBySites struct{ scale float64 }

func (drawnBySites) Add(_ *gnmax.Source, sums []int64) ([]int64, error) { return sums, nil }
func (d drawnBySites) Scale() float64                                   { return d.scale }
