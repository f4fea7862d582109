package aggregator

import (
	"fmt"

	"github.com/conclave-dp/conclave/gnmax"
	"github.com/conclave-dp/conclave/internal/aggregator/round"
	"github.com/conclave-dp/conclave/internal/aggregator/shape"
	"github.com/conclave-dp/conclave/internal/privacy"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// WithMechanism replaces the mechanism that answers votes, behind all checks and
// the budget. This file is part of tests alone.
func WithMechanism(o Options, replace func(gnmax.Mechanism) gnmax.Mechanism) Options {
	o.faults.Distort = func(q round.Question) round.Question {
		votes, ok := q.(*shape.Votes)
		if !ok {
			return q
		}
		faulty := *votes
		faulty.Mechanism = replace(votes.Mechanism)
		return &faulty
	}
	return o
}

// WithUse charges another use of the plan than a release makes.
func WithUse(o Options, undercharge func(privacy.Use) privacy.Use) Options {
	o.faults.Undercharge = undercharge
	return o
}

// WithExactCounts releases class counts without their noise, charged as ever.
func WithExactCounts(o Options) Options {
	o.faults.Distort = func(q round.Question) round.Question {
		if counts, ok := q.(*shape.ClassCounts); ok {
			return exactCounts{counts}
		}
		return q
	}
	return o
}

type exactCounts struct{ *shape.ClassCounts }

func (q exactCounts) Answer(_ *gnmax.Source, counts []int64, r *conclavev1.Release) (int64, error) {
	if len(counts) != q.Length() {
		return 0, fmt.Errorf("%d counts of %d classes", len(counts), q.Length())
	}
	r.Answer = &conclavev1.Release_Sum{Sum: &conclavev1.NoisySum{Values: counts, Scale: q.Scale}}
	return 1, nil
}
