package privacy

import (
	"math"
	"slices"
)

// orders is the grid on which Rényi divergences are added up. Any grid gives a valid epsilon; this one loses less
// than 0.05% against the best order for epsilon between about 1e-4 and 1e5. It has all tenths up to 11 and all
// integers up to 64. Above 32 it has only integers, for bounds that hold only for those.
var orders = func() []float64 {
	var grid []float64
	for above := 1e-3; above < 1e6; above *= 1.03 {
		alpha := 1 + above
		if alpha > 32 {
			alpha = math.Round(alpha)
		}
		grid = append(grid, alpha)
	}
	for tenths := 11; tenths <= 110; tenths++ {
		grid = append(grid, float64(tenths)/10)
	}
	for alpha := 2; alpha <= 64; alpha++ {
		grid = append(grid, float64(alpha))
	}
	for alpha := 128; alpha <= 4096; alpha *= 2 {
		grid = append(grid, float64(alpha))
	}
	slices.Sort(grid)
	return slices.Compact(grid)
}()

// Orders returns the orders alpha of the RDP accountant, ascending.
func Orders() []float64 { return slices.Clone(orders) }

// rdpSlack exceeds the relative rounding error of a divergence.
const rdpSlack = 1e-9

// rdpEpsilon is the smallest epsilon >= 0 that validated events have at delta by
// Rényi differential privacy: divergences add up at every order (Mironov 2017,
// Proposition 1), and a divergence rho of order alpha gives (epsilon, delta)
// with
//
//	epsilon = rho + log((alpha-1)/alpha) - (log delta + log alpha)/(alpha-1)
//
// (Canonne, Kamath, Steinke 2020, Proposition 12; Balle et al. 2020, Theorem 21). The best order may be chosen
// since the bounds for all orders hold at once.
//
// Divergences do not fall with the order (van Erven and Harremoës 2014, Theorem 3),
// so the divergence at one order bounds the epsilon of the orders above it from
// below. Those that cannot be the best are not computed.
func rdpEpsilon(events []Event, delta float64) float64 {
	best, last := math.Inf(1), len(orders)-1
	at := func(i int) float64 {
		rho := totalRDP(events, orders[i])
		if epsilon := rho + conversion(orders[i], delta); epsilon < best { // false for NaN
			best = epsilon
		}
		return rho
	}
	type between struct { // the orders with left < index < right
		left, right int
		rho         float64 // at left
	}
	at(last)
	open := []between{{0, last, at(0)}}
	for len(open) > 0 {
		var halves []between
		for _, b := range open {
			if b.right-b.left < 2 {
				continue
			}
			// conversion falls until the order 1/delta, then rises.
			least := conversion(max(orders[b.left], min(1/delta, orders[b.right])), delta)
			if b.rho+least > best+rdpSlack*(1+best) {
				continue
			}
			middle := (b.left + b.right) / 2
			halves = append(halves, between{b.left, middle, b.rho}, between{middle, b.right, at(middle)})
		}
		open = halves
	}
	return max(0, best)
}

// EpsilonFromRDP returns the smallest epsilon at delta that divergences prove, one in
// nats for each of [Orders]; it is infinite where no order gives a finite epsilon.
func EpsilonFromRDP(rho []float64, delta float64) float64 {
	best := math.Inf(1)
	for i, alpha := range orders {
		if epsilon := rho[i] + conversion(alpha, delta); epsilon < best { // false for NaN
			best = epsilon
		}
	}
	return max(0, best)
}

// conversion is the difference between epsilon and a divergence of order alpha.
func conversion(alpha, delta float64) float64 {
	return math.Log1p(-1/alpha) - (math.Log(delta)+math.Log(alpha))/(alpha-1)
}

func totalRDP(events []Event, alpha float64) float64 {
	sum := 0.0
	for _, e := range events {
		sum += mechanisms[e.Kind].rdp(e.PerUnit(), alpha)
	}
	return sum
}
