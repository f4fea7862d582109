package privacy

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// MinSigma is the smallest standard deviation of integer Gaussian noise that
// package gnmax draws, in counts, and the smallest that [GNMaxSigma] returns.
const MinSigma = 1

// GNMaxSigma returns the smallest noise per bin, at least [MinSigma], with which the budget's filter admits that
// many GNMax queries on top of the other events, for its overlap. Each query has mu² = 2/sigma² (Papernot et al.
// 2018, Proposition 8; Dong, Roth, Su 2019, Theorem 2.7). An [*OverBudgetError] says that the others leave no
// room.
func GNMaxSigma(b Budget, queries int64, other []Event) (float64, error) {
	found, err := admittedNoise(b, b.Event(Event{Kind: GNMax, Count: queries}), other)
	if err != nil {
		return 0, err
	}
	return max(MinSigma, found.Sigma), nil
}

// GaussianSigma returns the smallest noise, as a multiple of what a unit adds at one site, with which the budget's
// filter admits that many Gaussian releases on top of the other events, for its overlap. Each has mu² =
// (overlap/sigma)² (Dong, Roth, Su 2019, Theorem 2.7).
func GaussianSigma(b Budget, releases int64, other []Event) (float64, error) {
	found, err := admittedNoise(b, b.Event(Event{Kind: Gaussian, Count: releases}), other)
	return found.Sigma, err
}

// LNMaxLambda returns the largest lambda (inverse scale of the noise per bin) with which the budget's filter
// admits that many LNMax queries on top of the other events. A query costs the same as two (lambda, 0)-DP releases
// (Papernot et al. 2017, section 3). An [*OverBudgetError] says that the others leave no room.
func LNMaxLambda(b Budget, queries int64, other []Event) (float64, error) {
	found, err := admittedNoise(b, b.Event(Event{Kind: LNMax, Count: queries}), other)
	return found.Lambda, err
}

// SampledSigma returns the smallest noise multiplier, to one part in a million from above, with which that many
// Gaussian releases on Poisson samples of the rate are within the budget together with the other events, by
// [Account]. That is the rule of a [Plan]; filters for lists that are not fixed in advance need more noise. An
// [*OverBudgetError] says that the others leave no room.
func SampledSigma(b Budget, rate float64, releases int64, other []Event) (float64, error) {
	event := b.Event(Event{Kind: SubsampledGaussian, Rate: rate, NoiseMultiplier: 1, Count: releases})
	if err := errors.Join(event.Validate(), b.Validate()); err != nil {
		return 0, err
	}
	b.Filter = FilterPLD
	found, err := admittedNoise(b, event, other)
	return found.NoiseMultiplier, err
}

// admittedNoise is the event with the least noise that the budget's filter admits on top of the other events.
func admittedNoise(b Budget, event Event, other []Event) (Event, error) {
	if err := b.Validate(); err != nil {
		return Event{}, fmt.Errorf("budget: %w", err)
	}
	if event.Count < 1 {
		return Event{}, FieldErrorf("queries", "is %d; it must be at least 1", event.Count)
	}
	other, err := validMerged(other)
	if err != nil {
		return Event{}, err
	}
	if b.Filter == FilterPLD {
		return plannedNoise(b, event, other)
	}
	tooLittle := func(noise float64) bool { return !b.fits(Merge(append(slices.Clone(other), event.scaled(noise)))) }
	hi := 1.0
	for tooLittle(hi) {
		if hi *= 2; hi > 1e15 {
			return Event{}, noRoom(b, other)
		}
	}
	_, hi = bisect(0, hi, tooLittle)
	// The last digits of sums depend on their order, and those of an epsilon on the search, so the noise is
	// slightly increased.
	return event.scaled(hi * (1 + 1e-9)), nil
}

// crossMargin is the share of epsilon that noise by pld leaves unused: another processor computes different last
// digits, and must also find the plan within its budget.
const crossMargin = 1e-8

// plannedNoise is admittedNoise by the rule of FilterPLD.
func plannedNoise(b Budget, event Event, other []Event) (Event, error) {
	less := b
	less.Epsilon *= 1 - crossMargin
	found, err := leastNoise(event, other, less)
	if errors.Is(err, ErrUnreachable) {
		return Event{}, noRoom(b, other)
	}
	return found, err
}

func noRoom(b Budget, other []Event) error {
	refusal := &OverBudgetError{Budget: b, Needed: math.Inf(1)}
	if spent, err := b.Filter.Epsilon(other, b.Delta); err == nil {
		refusal.Spent = spent
	}
	return fmt.Errorf("no noise is large enough for these queries: %w", refusal)
}
