package aggregator

import (
	"github.com/conclave-dp/conclave/gnmax"
	"github.com/conclave-dp/conclave/internal/aggregator/round"
	"github.com/conclave-dp/conclave/internal/aggregator/shape"
	"github.com/conclave-dp/conclave/internal/privacy"
)

// WithMechanism replaces the mechanism that answers votes charged so, behind all checks and
// the budget. This file is part of tests alone.
func WithMechanism(o Options, replace func(privacy.Event) gnmax.Mechanism) Options {
	o.faults.Distort = func(q round.Question) round.Question {
		votes, ok := q.(*shape.Votes)
		if !ok {
			return q
		}
		faulty := *votes
		faulty.Mechanism = replace(votes.Charged)
		return &faulty
	}
	return o
}

// WithUse charges another use of the plan than a release makes.
func WithUse(o Options, undercharge func(privacy.Use) privacy.Use) Options {
	o.faults.Undercharge = undercharge
	return o
}

// WithExactCounts releases sums without their noise, charged as ever.
func WithExactCounts(o Options) Options {
	o.faults.Distort = func(q round.Question) round.Question {
		sum, ok := q.(*shape.Sum)
		if !ok {
			return q
		}
		faulty := *sum
		faulty.Noise = exact{sum.Noise}
		return &faulty
	}
	return o
}

// exact is noise that is never drawn.
type exact struct{ shape.Noise }

func (exact) Add(_ *gnmax.Source, sums []int64) ([]int64, error) { return sums, nil }
