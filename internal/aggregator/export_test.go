package aggregator

import (
	"github.com/conclave-dp/conclave/gnmax"
	"github.com/conclave-dp/conclave/internal/aggregator/round"
	"github.com/conclave-dp/conclave/internal/aggregator/shape"
	"github.com/conclave-dp/conclave/internal/privacy"
)

// WithMechanism replaces the mechanism that answers votes with this charge, after all checks and the budget. Only
// tests include this file.
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

// WithUse charges a different plan entry from the one that a release uses.
func WithUse(o Options, undercharge func(privacy.Use) privacy.Use) Options {
	o.faults.Undercharge = undercharge
	return o
}

// WithExactCounts releases sums without noise, at the usual charge.
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
