package privacy

import (
	"errors"
	"fmt"
	"math"
)

// ErrUnreachable is what errors.Is finds when no noise, or no query, fits a
// target.
var ErrUnreachable = errors.New("target out of reach")

// noiseError is the relative precision of [Calibrate].
const noiseError = 1e-6

// Calibrate returns the event with the least noise whose claim, for its counts
// and all by itself, stays within the budget: the claim of [Account], not the
// rule of a filter. The event gives kind, counts and what is no noise; its noise
// is found:
//
//	gaussian             sigma, for the sensitivity
//	subsampled-gaussian  noise_multiplier, for the rate
//	gnmax                sigma
//	confident-gnmax      sigma1 and sigma2, in the proportion in which they are given
//	lnmax                lambda
//	laplace, exponential epsilon
//
// The noise is within one part in a million of the least, from above. Sigmas
// are not rounded to what package gnmax draws; see [MinSigma].
func Calibrate(template Event, target Budget) (Event, error) {
	if err := target.Validate(); err != nil {
		return Event{}, fmt.Errorf("target: %w", err)
	}
	if err := template.scaled(1).Validate(); err != nil {
		return Event{}, err
	}
	// Formulas give a first bracket that a loss distribution then narrows.
	within := func(account func([]Event, float64) (Claim, error)) func(float64) bool {
		return func(more float64) bool {
			claim, err := account([]Event{template.scaled(more)}, target.Delta)
			return err == nil && claim.Epsilon <= target.Epsilon // an error means too little noise
		}
	}
	const least, most = 1e-12, 1e15
	if !within(Running)(most) {
		return Event{}, fmt.Errorf("%s: epsilon %g at delta %g: %w", template.Kind, target.Epsilon, target.Delta, ErrUnreachable)
	}
	enough := leastNoise(least, most, 1e-9, within(Running))
	if mechanisms[template.Kind].gaussian {
		return template.scaled(enough), nil // the formula is exact
	}
	less := enough / 2
	for less > least && within(Account)(less) {
		enough, less = less, less/2
	}
	return template.scaled(leastNoise(less, enough, noiseError, within(Account))), nil
}

// leastNoise narrows [lo, hi] around the place from which on there is enough
// noise, in proportion, and returns the upper end.
func leastNoise(lo, hi, precision float64, enough func(float64) bool) float64 {
	for hi/lo > 1+precision {
		mid := math.Sqrt(lo * hi)
		if mid <= lo || mid >= hi {
			break
		}
		if enough(mid) {
			hi = mid
		} else {
			lo = mid
		}
	}
	return hi
}

// scaled is the event with that much noise. Noise that is not given counts as
// one, but for the two sigmas of a confident query, whose proportion matters.
func (e Event) scaled(more float64) Event {
	switch e.Kind {
	case Gaussian, GNMax:
		e.Sigma = more
	case SubsampledGaussian:
		e.NoiseMultiplier = more
	case ConfidentGNMax:
		e.Sigma1, e.Sigma2 = e.Sigma1*more, e.Sigma2*more
	case LNMax:
		e.Lambda = 1 / more
	case Laplace, Exponential:
		e.Epsilon = 1 / more
	}
	return e
}

// maxQueriesAsked bounds the search of [MaxQueries].
const maxQueriesAsked = 1 << 40

// MaxQueries returns the largest number of queries like the given one whose
// claim stays within the budget. Of the event the noise counts and not the
// counts; confident queries count as all answered. It may be wrong by one part
// in a million, on the safe side, and is [ErrUnreachable] where not one fits.
func MaxQueries(query Event, target Budget) (int64, error) {
	if err := target.Validate(); err != nil {
		return 0, fmt.Errorf("target: %w", err)
	}
	times := func(n int64) Event {
		e := query.parameters()
		if e.Kind == ConfidentGNMax {
			e.Asked, e.Answered = n, n
		} else {
			e.Count = n
		}
		return e
	}
	if err := times(1).Validate(); err != nil {
		return 0, err
	}
	fits := func(n int64) bool {
		claim, err := Account([]Event{times(n)}, target.Delta)
		return err == nil && claim.Epsilon <= target.Epsilon
	}
	if !fits(1) {
		return 0, fmt.Errorf("%s: one query passes epsilon %g at delta %g: %w", query.Kind, target.Epsilon, target.Delta, ErrUnreachable)
	}
	lo, hi := int64(1), int64(2)
	for fits(hi) {
		if hi >= maxQueriesAsked {
			return 0, fmt.Errorf("%s: more than %d queries fit epsilon %g; their noise hides any answer", query.Kind, int64(maxQueriesAsked), target.Epsilon)
		}
		lo, hi = hi, hi*2
	}
	for hi-lo > 1+lo/1_000_000 {
		if mid := lo + (hi-lo)/2; fits(mid) {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo, nil
}
