package privacy

import (
	"fmt"
	"math"
	"slices"
)

// Filter is the rule by which a [Budget] admits releases one after another, where each question, its noise and
// whether it is asked at all may depend on earlier answers. The rule is fixed before the first release: choosing the
// more favourable of two rules afterwards would cost the delta of both.
type Filter string

const (
	// FilterGDP adds up the squares of Gaussian DP parameters and never lets the sum exceed mu², where mu is the
	// largest with mu-GDP inside the budget. The whole is then mu-GDP (Smith and Thakurta 2022; Koskela, Tobaben,
	// Honkela 2023): each answer can be computed from a stretch of length mu_i² of one Brownian motion with drift,
	// and together they use a stretch of at most mu². Events of pure DP count with the Gaussian DP they imply,
	// samples as if they were not sampled. It is exact for Gaussian noise, and the default.
	FilterGDP Filter = "gdp"
	// FilterRDP adds up Rényi divergences at one order and never lets the sum exceed what (epsilon, delta) allows
	// there (the Rényi filter of Feldman and Zrnic 2021 and Lécuyer 2021). The order depends only on the budget. It
	// costs some 8% of epsilon against FilterGDP for Gaussian noise, and is better if samples are to be amplified.
	FilterRDP Filter = "rdp"
	// FilterPLD asks for the price of the whole list, by all accountants, including privacy loss distributions. It is
	// the tightest, but it does not allow questions that depend on earlier answers. It holds within a [Plan] that was
	// fixed before the first question, and ledgers require one.
	FilterPLD Filter = "pld"
)

// filterRule holds the properties of a filter; the empty name is FilterGDP.
type filterRule struct {
	// fits decides for validated, merged events. The adaptive rules also admit what is within the budget as pure
	// DP. To see why, split the outputs into those that end within the pure rule and the others. For the first P
	// <= e^epsilon Q, for the others P <= e^epsilon Q + delta, and the sum is e^epsilon Q + delta.
	fits func(b Budget, events []Event) bool
	// room is the largest mu² of one more Gaussian release on top of events;
	// zero or less when there is none.
	room func(b Budget, events []Event) float64
}

var filterRules = map[Filter]filterRule{
	"":        gdpRule,
	FilterGDP: gdpRule,
	FilterRDP: {
		fits: func(b Budget, events []Event) bool {
			return pureEpsilon(events) <= b.Epsilon || b.order().epsilon(events, b.Delta) <= b.Epsilon
		},
		room: func(b Budget, events []Event) float64 {
			o := b.order() // one more release of mu costs mu²/2 times the mean order
			return 2 * (b.Epsilon - o.epsilon(events, b.Delta)) / o.mean(func(alpha float64) float64 { return alpha })
		},
	},
	FilterPLD: {
		fits: func(b Budget, events []Event) bool {
			// The closed formulas come first, because they take a hundredth of the time.
			return closedForms(events, b.Delta).Epsilon <= b.Epsilon ||
				pldEpsilon(events, b.Delta) <= b.Epsilon
		},
		room: func(b Budget, events []Event) float64 {
			if allGaussian(events) {
				return gdpRule.room(b, events)
			}
			one, err := leastNoise(Event{Kind: Gaussian, Sensitivity: 1, Count: 1}, events, b)
			if err != nil {
				return 0
			}
			return square(1 / one.Sigma)
		},
	},
}

var gdpRule = filterRule{
	// This compares delta instead of epsilon, which needs no search.
	fits: func(b Budget, events []Event) bool {
		return pureEpsilon(events) <= b.Epsilon || gdpDelta(b.Epsilon, totalMu(events)) <= b.Delta
	},
	room: func(b Budget, events []Event) float64 {
		return square(gdpMu(b.Epsilon, b.Delta)) - square(totalMu(events))
	},
}

func (f Filter) validate() error {
	if _, ok := filterRules[f]; !ok {
		return FieldErrorf("filter", "is %q; use %s, %s or %s", string(f), FilterGDP, FilterRDP, FilterPLD)
	}
	return nil
}

// Epsilon is the smallest budget at delta that would have admitted the events in any order, to the last digits. For
// FilterGDP it is never below the figure of [Running], apart from rounding (some 1e-11 of it). So no price exceeds the
// budget of a filter that admitted the events.
func (f Filter) Epsilon(events []Event, delta float64) (float64, error) {
	if err := f.validate(); err != nil {
		return 0, err
	}
	if err := CheckDelta(delta); err != nil {
		return 0, err
	}
	events, err := validMerged(events)
	if err != nil {
		return 0, fmt.Errorf("filter: %w", err)
	}
	return f.epsilon(events, delta), nil
}

func (f Filter) epsilon(events []Event, delta float64) float64 {
	switch {
	case len(events) == 0:
		return 0
	case f == FilterRDP: // no formula
	case f == FilterPLD:
		return min(closedForms(events, delta).Epsilon, pldEpsilon(events, delta))
	default:
		return min(pureEpsilon(events), gdpEpsilon(totalMu(events), delta))
	}
	fits := func(epsilon float64) bool {
		return filterRules[f].fits(Budget{Epsilon: epsilon, Delta: delta}, events)
	}
	if fits(0) { // delta alone is enough
		return 0
	}
	pure := pureEpsilon(events)
	lo, hi := 0.0, 1e-6
	for !fits(hi) {
		if lo, hi = hi, 2*hi; hi > 1e12 {
			return pure // infinite where not all events have one
		}
	}
	_, hi = bisect(lo, hi, func(epsilon float64) bool { return !fits(epsilon) })
	return min(hi, pure)
}

// order is the order alpha at which FilterRDP counts, as a mean of two neighbours
// a <= alpha <= b on the grid of [Orders]. Where alpha-1 = (1-s)(a-1) + s(b-1), a
// divergence of order alpha is at most the mean of those of a and b, or of bounds of
// them, with the weights
//
//	(1-s) (a-1)/(alpha-1)  and  s (b-1)/(alpha-1),
//
// whose sum is 1: (alpha-1) D_alpha is the logarithm of a moment and therefore convex in alpha (Hölder). The same
// mean of the two conversions is above that of alpha, because alpha-1 times the conversion is convex too; it is
// (alpha-1) log(alpha-1) - alpha log alpha - log delta. So the mean of the two epsilons holds at the order alpha,
// which was fixed before the first release. It is also never below the smaller of them, so that no running figure
// exceeds it.
type order struct {
	a, b   float64
	weight float64 // of b
}

func (o order) mean(of func(alpha float64) float64) float64 {
	if o.a == o.b {
		return of(o.a)
	}
	return (1-o.weight)*of(o.a) + o.weight*of(o.b)
}

func (o order) epsilon(events []Event, delta float64) float64 {
	return o.mean(func(alpha float64) float64 { return totalRDP(events, alpha) + conversion(alpha, delta) })
}

// order is the order that admits the most Gaussian releases: it maximizes (epsilon - conversion(alpha))/alpha,
// within the grid and where samples have a divergence.
//
// With M = -log(delta alpha) the derivative of the conversion is -M/(alpha-1)², so the maximum is where
//
//	epsilon = M (2 alpha - 1)/(alpha - 1)² + log((alpha-1)/alpha).
//
// The right side falls from infinity at 1 to less than 0 at 1/delta, so there is one such alpha. It falls as epsilon
// rises, and what is allowed there, epsilon - conversion(alpha), rises by more than half of the rise of epsilon.
// Because divergences do not rise when alpha falls, a larger budget admits whatever a smaller one does. Jumping from
// order to order would break that: at a jump the conversion suddenly costs more.
func (b Budget) order() order {
	at := min(1/b.Delta, maxSubsampledOrder) - 1
	tooLow := func(above float64) bool {
		m := -math.Log(b.Delta) - math.Log1p(above)
		return m*(2*above+1)/(above*above)-math.Log1p(1/above) > b.Epsilon
	}
	if !tooLow(at) {
		_, at = bisect(0, at, tooLow)
	}
	i, _ := slices.BinarySearch(orders, 1+at)
	if i == 0 || orders[i] == 1+at {
		return order{a: orders[i], b: orders[i]}
	}
	low, high := orders[i-1], orders[i]
	return order{a: low, b: high, weight: (1 + at - low) / (high - low) * (high - 1) / at}
}
