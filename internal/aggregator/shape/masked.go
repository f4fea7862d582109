package shape

import (
	"fmt"

	"github.com/conclave-dp/conclave/gnmax"
	"github.com/conclave-dp/conclave/internal/aggregator/fault"
	"github.com/conclave-dp/conclave/internal/aggregator/spec"
	"github.com/conclave-dp/conclave/internal/masking"
	"github.com/conclave-dp/conclave/internal/privacy"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// maskedSum is a sum that the aggregator sees with its noise alone: see package masking.
type maskedSum struct {
	*Sum
	share gnmax.Share
}

func newMaskedSum(v *conclavev1.Vector, planned privacy.Planned, run *spec.Spec) (*maskedSum, error) {
	sum, err := newSum(v, planned, run)
	if err != nil {
		return nil, err
	}
	share, err := masking.ShareOf(planned, v, *run.Masked)
	if err != nil {
		return nil, fault.Invalidf("run %q: %w", run.PB.GetName(), err)
	}
	surplus := run.Masked.Surplus(len(run.Masked.Members))
	sum.Noise = drawnBySites{surplus * sum.Noise.Scale()}
	sum.limit = limitOf(sum.vector, sum.Noise, run)
	return &maskedSum{sum, share}, nil
}

// Share is the noise that each site adds.
func (q *maskedSum) Share() gnmax.Share { return q.share }

// Read checks all that can be seen of an answer: its length. Its entries are uniform.
func (q *maskedSum) Read(answer *conclavev1.WorkRequest, _ uint32) ([]int64, error) {
	sum := answer.GetSum()
	switch values := sum.GetValues(); {
	case sum == nil:
		return nil, fmt.Errorf("votes where a sum was asked")
	case len(values) > q.entries:
		return nil, fault.Oversizedf("a sum of %d entries where %d were asked", len(values), q.entries)
	case len(values) < q.entries:
		return nil, fmt.Errorf("a sum of %d entries where %d were asked", len(values), q.entries)
	default:
		return values, nil
	}
}

// drawnBySites is the noise of a sum that came with it.
type drawnBySites struct{ scale float64 }

func (drawnBySites) Add(_ *gnmax.Source, sums []int64) ([]int64, error) { return sums, nil }
func (d drawnBySites) Scale() float64                                   { return d.scale }
