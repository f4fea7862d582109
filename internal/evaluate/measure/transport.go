package measure

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// mostTransport bounds the points of a transport problem.
const mostTransport = 2000

// Transport is the least cost of moving one distribution to another: the minimum of sum f_ij cost_ij over flows
// f of at least 0 with the points' shares as sums (Kantorovich 1942). With distances as costs it is exactly the
// first Wasserstein distance, in any number of dimensions. cost[i][j] is the cost from point i of the first to
// point j of the second; wa and wb are the points' weights, nil for 1 each.
//
// It uses the network simplex method (Dantzig 1951; Cunningham 1976). The search rounds costs to 2^-36 of the
// largest, so the result may be too large by that much. It fails for no points, more than 2,000 of either,
// costs that are negative or not finite, rows of unequal length, and with ErrWeights.
func Transport(cost [][]float64, wa, wb []float64) (float64, error) {
	fail := func(err error) (float64, error) { return 0, fmt.Errorf("transport: %w", err) }
	if len(cost) == 0 || len(cost[0]) == 0 {
		return fail(ErrNoValues)
	}
	n, m := len(cost), len(cost[0])
	if n > mostTransport || m > mostTransport {
		return fail(fmt.Errorf("%d points to %d: draw at most %d of each", n, m, mostTransport))
	}
	for i, row := range cost {
		if len(row) != m {
			return fail(fmt.Errorf("%d costs from point %d, %d from the first", len(row), i+1, m))
		}
		for j, c := range row {
			if !(c >= 0) || math.IsInf(c, 0) {
				return fail(fmt.Errorf("the cost from point %d to %d is %v: it must be finite and not negative", i+1,
					j+1, c))
			}
		}
	}
	supply, err := Weights(n, wa)
	if err != nil {
		return fail(err)
	}
	demand, err := Weights(m, wb)
	if err != nil {
		return fail(err)
	}
	// Points without mass would have arcs without flow, on which the simplex method cycles.
	sources, give := positive(wholeShares(supply))
	sinks, take := positive(wholeShares(demand))
	total := 0.0
	for _, f := range newSimplex(wholeCosts(cost, sources, sinks), give, take).solve() {
		total += f.mass / wholeMass * cost[sources[f.from]][sinks[f.to]]
	}
	if math.IsInf(total, 0) || math.IsNaN(total) {
		return fail(errors.New("the costs are too large to be added up: use a larger unit"))
	}
	return total, nil
}

// wholeMass is the sum of all mass in whole numbers, and wholeCost the largest cost. With them all sums are
// exact in float64: those along a tree of 4,000 points, and those that include the points' own arcs. Shares
// change by less than 1e-15.
const (
	wholeMass = 1 << 50
	wholeCost = 1 << 36
)

// wholeShares turns weights into whole numbers that add up to wholeMass.
func wholeShares(w []float64) []float64 {
	total, left, largest := Sum(w), float64(wholeMass), 0
	for i, v := range w {
		w[i] = math.Round(v / total * wholeMass)
		left -= w[i]
		if w[i] > w[largest] {
			largest = i
		}
	}
	w[largest] += left
	return w
}

// positive returns the positive numbers and their indices.
func positive(w []float64) (at []int, values []float64) {
	for i, v := range w {
		if v > 0 {
			at, values = append(at, i), append(values, v)
		}
	}
	return at, values
}

// wholeCosts are the costs between some of the points, row by row.
func wholeCosts(cost [][]float64, sources, sinks []int) []float64 {
	highest := 0.0
	for _, row := range cost {
		highest = math.Max(highest, slices.Max(row))
	}
	out := make([]float64, 0, len(sources)*len(sinks))
	for _, i := range sources {
		for _, j := range sinks {
			c := 0.0
			if highest > 0 {
				c = math.Round(cost[i][j] / highest * wholeCost)
			}
			out = append(out, c)
		}
	}
	return out
}
