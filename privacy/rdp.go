package privacy

import (
	"math"
	"slices"
)

// orders is the grid on which Rényi divergences are added up. Any grid gives a
// valid epsilon; this one loses less than 0.05% against the best order for
// epsilon between about 1e-4 and 1e5. It has all tenths to 11, all integers to
// 64, and above 32 integers only, for bounds that hold for integers alone.
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

// rdpEpsilon is the smallest epsilon >= 0 that validated events have at delta by
// Rényi differential privacy: divergences add up at every order (Mironov 2017,
// Proposition 1), and a divergence rho of order alpha gives (epsilon, delta)
// with
//
//	epsilon = rho + log((alpha-1)/alpha) - (log delta + log alpha)/(alpha-1)
//
// (Canonne, Kamath, Steinke 2020, Proposition 12; Balle et al. 2020,
// Theorem 21). The order may be chosen freely since all of them hold at once.
func rdpEpsilon(events []Event, delta float64) float64 {
	rho := make([]float64, len(orders))
	for i, alpha := range orders {
		rho[i] = totalRDP(events, alpha)
	}
	return bestEpsilon(rho, delta)
}

// bestEpsilon converts divergences at each of orders; it is infinite where no
// order gives a finite epsilon.
func bestEpsilon(rho []float64, delta float64) float64 {
	best := math.Inf(1)
	for i, alpha := range orders {
		if epsilon := rho[i] + conversion(alpha, delta); epsilon < best { // false for NaN
			best = epsilon
		}
	}
	return max(0, best)
}

// conversion is what epsilon has above a divergence of order alpha.
func conversion(alpha, delta float64) float64 {
	return math.Log1p(-1/alpha) - (math.Log(delta)+math.Log(alpha))/(alpha-1)
}

func totalRDP(events []Event, alpha float64) float64 {
	sum := 0.0
	for _, e := range events {
		sum += mechanisms[e.Kind].rdp(e, alpha)
	}
	return sum
}
