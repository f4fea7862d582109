package privacy

import (
	"math"
	"slices"
)

// order is the order alpha at which FilterRDP counts, as a mean of two neighbours
// a <= alpha <= b on the grid of [Orders]. Where alpha-1 = (1-s)(a-1) + s(b-1), a
// divergence of order alpha is at most the mean of those of a and b, or of bounds of
// them, with the weights
//
//	(1-s) (a-1)/(alpha-1)  and  s (b-1)/(alpha-1),
//
// whose sum is 1: (alpha-1) D_alpha is the logarithm of a moment, and so convex in alpha
// (Hölder). The same mean of the two conversions is above that of alpha, because
// alpha-1 times the conversion is convex too; it is (alpha-1) log(alpha-1) - alpha log
// alpha - log delta. So the mean of the two epsilons holds at the order alpha, which was
// fixed before the first release. And it is never below the smaller of them, so that no
// running figure passes it.
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

// epsilon is what the events come to at the order.
func (o order) epsilon(events []Event, delta float64) float64 {
	return o.mean(func(alpha float64) float64 { return totalRDP(events, alpha) + conversion(alpha, delta) })
}

// order is the one that lets most Gaussian releases through: it makes
// (epsilon - conversion(alpha))/alpha the largest, within the grid and where samples have
// a divergence.
//
// With M = -log(delta alpha) the derivative of the conversion is -M/(alpha-1)², so that
// the largest is where
//
//	epsilon = M (2 alpha - 1)/(alpha - 1)² + log((alpha-1)/alpha).
//
// The right side falls from infinity at 1 to less than 0 at 1/delta: there is one such
// alpha. It falls as epsilon rises, and what is allowed there, epsilon - conversion(alpha),
// rises by more than half of what epsilon does. As divergences do not rise when alpha
// falls, a larger budget admits whatever a smaller one does. A jump from order to order
// would take that away: at a jump the conversion costs more all at once.
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
