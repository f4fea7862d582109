package privacy

import (
	"errors"
	"fmt"
	"math"
)

// MinSigma is the smallest standard deviation of integer Gaussian noise that
// package gnmax draws, in counts, and the smallest that [GNMaxSigma] returns.
const MinSigma = 1

// GNMaxSigma returns the smallest noise per bin such that the budget's filter
// admits that many GNMax queries on top of the other events; at least
// [MinSigma]. Each has mu² = 2/sigma² (Papernot et al. 2018, Proposition 8; Dong,
// Roth, Su 2019, Theorem 2.7). An [*OverBudgetError] says that the others leave no room.
func GNMaxSigma(b Budget, queries int64, other []Event) (float64, error) {
	return leastSigma(b, MinSigma, 2, queries, other, func(sigma float64) Event {
		return Event{Kind: GNMax, Sigma: sigma, Count: queries}
	})
}

// GaussianSigma returns the smallest noise, as a multiple of the sensitivity, such
// that the budget's filter admits that many Gaussian releases on top of the other
// events. Each has mu² = 1/sigma² (Dong, Roth, Su 2019, Theorem 2.7).
func GaussianSigma(b Budget, releases int64, other []Event) (float64, error) {
	return leastSigma(b, 0, 1, releases, other, func(sigma float64) Event {
		return Event{Kind: Gaussian, Sigma: sigma, Sensitivity: 1, Count: releases}
	})
}

// crossMargin is the share of epsilon that noise by pld leaves free: another
// processor finds another last digit, and has to find the plan within its budget too.
const crossMargin = 1e-8

// SampledSigma returns the least noise multiplier, within one part in a million from
// above, such that so many Gaussian releases on Poisson samples of the rate are
// within the budget together with the other events, by [Account]. That is the rule
// of a [Plan]; filters for lists that nobody fixed want more noise. An
// [*OverBudgetError] says that the others leave no room.
func SampledSigma(b Budget, rate float64, releases int64, other []Event) (float64, error) {
	event := Event{Kind: SubsampledGaussian, Rate: rate, NoiseMultiplier: 1, Count: releases}
	if err := event.Validate(); err != nil {
		return 0, err
	}
	found, err := plannedNoise(b, event, other)
	return found.NoiseMultiplier, err
}

// plannedNoise finds the noise of the event by the rule of FilterPLD.
func plannedNoise(b Budget, event Event, other []Event) (Event, error) {
	if err := b.Validate(); err != nil {
		return Event{}, fmt.Errorf("budget: %w", err)
	}
	other, err := validMerged(other)
	if err != nil {
		return Event{}, err
	}
	less := b
	less.Epsilon *= 1 - crossMargin
	found, err := leastNoise(event, other, less)
	if errors.Is(err, ErrUnreachable) {
		b.Filter = FilterPLD // whose figures the refusal tells
		return Event{}, noRoom(b, other)
	}
	return found, err
}

// leastSigma finds the noise, at least least, of queries that cost mu² =
// unit/sigma² each, which are the event.
func leastSigma(b Budget, least, unit float64, queries int64, other []Event, event func(sigma float64) Event) (float64,
	error) {
	if err := checkCalibration(b, queries, other); err != nil {
		return 0, err
	}
	if b.Filter == FilterPLD {
		found, err := plannedNoise(b, event(1), other)
		return max(least, found.Sigma), err
	}
	left := filterRules[b.Filter].room(b, Merge(other))
	if !(left > 0) {
		return 0, noRoom(b, other)
	}
	// queries * unit/sigma² <= left. The last digits of sums depend on their
	// order, and those of an epsilon on the way it is found, so there is a hair
	// more noise, and a little more until the filter agrees.
	sigma := max(least, math.Sqrt(unit*float64(queries)/left)*(1+1e-9))
	for range 60 {
		if _, err := b.admit(other, []Event{event(sigma)}); err == nil {
			return sigma, nil
		}
		sigma *= 1 + 1e-9
	}
	return 0, noRoom(b, other)
}

// LNMaxLambda returns the largest lambda (inverse scale of the noise per bin)
// such that the budget's filter admits that many LNMax queries on top of the
// other events; a query costs what two (lambda, 0)-DP releases do (Papernot et
// al. 2017, section 3). An [*OverBudgetError] says that the others leave no room.
func LNMaxLambda(b Budget, queries int64, other []Event) (float64, error) {
	if err := checkCalibration(b, queries, other); err != nil {
		return 0, err
	}
	if b.Filter == FilterPLD {
		found, err := plannedNoise(b, Event{Kind: LNMax, Count: queries}, other)
		return found.Lambda, err
	}
	admits := func(lambda float64) bool {
		_, err := b.admit(other, []Event{{Kind: LNMax, Lambda: lambda, Count: queries}})
		return err == nil
	}
	hi := 1.0
	for admits(hi) {
		hi *= 2
	}
	lo, _ := bisect(0, hi, admits)
	lo *= 1 - 1e-9 // room for the last digits, as above
	if !positive(lo) || !admits(lo) {
		return 0, noRoom(b, other)
	}
	return lo, nil
}

func checkCalibration(b Budget, queries int64, other []Event) error {
	if err := b.Validate(); err != nil {
		return fmt.Errorf("budget: %w", err)
	}
	if queries < 1 {
		return FieldErrorf("queries", "is %d; it must be at least 1", queries)
	}
	_, err := validMerged(other)
	return err
}

func noRoom(b Budget, other []Event) error {
	refusal := &OverBudgetError{Budget: b, Needed: math.Inf(1)}
	if spent, err := b.Filter.Epsilon(other, b.Delta); err == nil {
		refusal.Spent = spent
	}
	return fmt.Errorf("no noise is large enough for these queries: %w", refusal)
}
