package privacy

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// ErrUnreachable matches, with errors.Is, the error that no noise, or no query, fits a target.
var ErrUnreachable = errors.New("target out of reach")

// noiseError is the relative precision of [Calibrate].
const noiseError = 1e-6

// Calibrate returns the event with the least noise whose price alone, for its counts, stays within the budget: the
// price of [Account], not the rule of a filter. The event gives the kind, the counts and all parameters except the
// noise, which is found:
//
//	gaussian             sigma, for the sensitivity
//	subsampled-gaussian  noise_multiplier, for the rate
//	gnmax                sigma
//	confident-gnmax      sigma1 and sigma2, in the given proportion
//	lnmax                lambda
//	laplace, exponential epsilon
//
// The noise is within one part in a million of the least, from above. Sigmas are not rounded to what package gnmax
// draws; see [MinSigma].
func Calibrate(template Event, target Budget) (Event, error) {
	if err := target.Validate(); err != nil {
		return Event{}, fmt.Errorf("target: %w", err)
	}
	if err := template.scaled(1).Validate(); err != nil {
		return Event{}, err
	}
	return leastNoise(template, nil, target)
}

func leastNoise(template Event, other []Event, target Budget) (Event, error) {
	// excess is positive if there is too little noise.
	excess := func(account func([]Event, float64) (Price, error), logNoise float64) float64 {
		price, err := account(append(slices.Clone(other), template.scaled(math.Exp(logNoise))), target.Delta)
		if err != nil {
			return math.Inf(1) // far too little
		}
		return math.Log(price.Epsilon / target.Epsilon)
	}
	lo, hi := math.Log(1e-12), math.Log(1e15)
	running := func(x float64) float64 { return excess(Running, x) }
	full := remembered(func(x float64) float64 { return excess(Account, x) })
	if running(hi) > 0 && (len(other) == 0 || full(hi) > 0) {
		return Event{}, fmt.Errorf("%s: no noise is enough for epsilon %g at delta %g; use fewer queries, or a larger "+
			"budget: %w", template.Kind, target.Epsilon, target.Delta, ErrUnreachable)
	}
	if running(lo) <= 0 {
		return Event{}, fmt.Errorf("%s: epsilon %g at delta %g allows almost no noise and protects nobody: use a "+
			"smaller epsilon", template.Kind, target.Epsilon, target.Delta)
	}
	// Try closed formulas first: they are exact for Gaussian noise. For other noise the true result is slightly
	// smaller.
	if allGaussian(append(slices.Clone(other), template)) {
		_, hi = bisect(lo, hi, func(x float64) bool { return running(x) > 0 })
		return template.scaled(math.Exp(hi)), nil
	}
	if running(hi) <= 0 {
		hi = narrow(lo, hi, 1e-3, running)
	} else { // the others alone exceed the closed formulas, but not pld
		hi = narrow(lo, hi, 0.3, full)
	}
	// The logarithm of epsilon falls about as fast as that of the noise rises.
	for lo = hi; full(lo) <= 0; {
		if hi = lo; hi < math.Log(1e-12) {
			break
		}
		lo += min(-1e-3, max(-0.3, 1.5*full(hi)))
	}
	return template.scaled(math.Exp(root(lo, hi, full))), nil
}

// narrow returns a point at most width above the zero in [lo, hi] of a decreasing function that is at or below
// zero at hi.
func narrow(lo, hi, width float64, f func(float64) float64) float64 {
	for hi-lo > width {
		if mid := (lo + hi) / 2; f(mid) > 0 {
			lo = mid
		} else {
			hi = mid
		}
	}
	return hi
}

// root returns an x at most noiseError above the zero of a decreasing function, which is above zero at lo and at
// or below zero at hi. It uses the Illinois method (regula falsi that halves the value at an end that stays).
func root(lo, hi float64, f func(float64) float64) float64 {
	atLo, atHi, kept := f(lo), f(hi), 0
	for range 60 {
		if hi-lo < noiseError {
			break
		}
		x := hi - (hi-lo)*atHi/(atHi-atLo)
		if !(x > lo && x < hi) || math.IsInf(atLo, 1) {
			x = (lo + hi) / 2
		}
		// Aim a little to the right, where the answer must be.
		x = min(x+noiseError/4, (x+hi)/2)
		switch y := f(x); {
		case y > 0:
			if lo, atLo = x, y; kept == 1 {
				atHi /= 2
			}
			kept = 1
		default:
			if hi, atHi = x, y; y > -noiseError {
				return hi
			}
			if kept == -1 {
				atLo /= 2
			}
			kept = -1
		}
	}
	return hi
}

// scaled is the event with its noise multiplied by the factor more. Unset noise counts as one, except for the two
// sigmas of a confident query, whose ratio matters.
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

// maxQueriesAsked bounds the search of [MaxQueries] and similar functions.
const maxQueriesAsked = 1 << 40

// MaxQueries returns the largest number of queries like the given one whose price stays within the budget. It uses the
// event's noise and ignores its counts; confident queries count as all answered. The result may be too low by one part
// in a million. The error is [ErrUnreachable] if not even one query fits.
func MaxQueries(query Event, target Budget) (int64, error) {
	if err := target.Validate(); err != nil {
		return 0, fmt.Errorf("target: %w", err)
	}
	if err := query.Times(1).Validate(); err != nil {
		return 0, err
	}
	priced := func(account func([]Event, float64) (Price, error), n int64) float64 {
		price, err := account([]Event{query.Times(n)}, target.Delta)
		if err != nil {
			return math.Inf(1)
		}
		return price.Epsilon
	}
	// Try closed formulas first, as in Calibrate; the true result is the same or slightly larger.
	n := largestCount(func(n int64) bool { return priced(Running, n) <= target.Epsilon })
	if !mechanisms[query.Kind].gaussian && n < maxQueriesAsked {
		n = moreQueries(n, func(n int64) float64 { return math.Log(priced(Account, n) / target.Epsilon) })
	}
	switch {
	case n >= maxQueriesAsked:
		return 0, fmt.Errorf("%s: more than %d queries fit epsilon %g; their noise hides any answer", query.Kind,
			int64(maxQueriesAsked), target.Epsilon)
	case n == 0:
		return 0, fmt.Errorf("%s: one query exceeds epsilon %g at delta %g; use more noise, or a larger budget: %w",
			query.Kind, target.Epsilon, target.Delta, ErrUnreachable)
	}
	return n, nil
}

// moreQueries is the largest number, at least n, whose excess is not above 0, to one part in a million.
func moreQueries(n int64, excess func(n int64) float64) int64 {
	at := remembered(excess)
	step := n/8 + 1
	hi := n + step
	for at(hi) <= 0 {
		if n = hi; n >= maxQueriesAsked {
			return n
		}
		step *= 2
		hi = n + step
	}
	if n == 0 {
		return n
	}
	// The logarithm of epsilon is nearly linear in that of n.
	number := func(x float64) int64 { return int64(math.Round(math.Exp(-x))) }
	return number(root(-math.Log(float64(hi)), -math.Log(float64(n)), func(x float64) float64 { return at(number(x)) }))
}

// largestCount returns the largest n with fits(n), maxQueriesAsked if that also fits, 0 if not even 1 fits. If
// fits(n) holds, it must hold for every smaller n.
func largestCount(fits func(n int64) bool) int64 {
	lo, hi := int64(0), int64(1)
	for fits(hi) {
		if lo = hi; lo == maxQueriesAsked {
			return lo
		}
		hi *= 2
	}
	for hi-lo > 1 {
		if mid := lo + (hi-lo)/2; fits(mid) {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo
}
