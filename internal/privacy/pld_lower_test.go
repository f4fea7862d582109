package privacy

import (
	"math"
	"slices"
)

// leastEpsilon is a lower bound on the epsilon of validated events at delta: it shows how far a price may be off.
func leastEpsilon(events []Event, delta float64) float64 {
	if allGaussian(events) {
		return gdpEpsilon(totalMu(events), delta)
	}
	least := lowest(dominatingPairs(events, false), delta)
	if slices.ContainsFunc(events, func(e Event) bool { return e.Kind == SubsampledGaussian && e.Rate < 1 }) {
		least = max(least, lowest(dominatingPairs(events, true), delta))
	}
	return least
}

// discretizeDown puts the losses of a pair on a grid from below. The mass around each
// point becomes one outcome: merging outcomes is post-processing and reveals less. Its
// loss lies a little beside the point, by about step²/12 times the slope of the log
// density. Where it lies below by more than shift it is moved to the point before, and for
// the others the whole grid counts as shifted by that much.
func discretizeDown(pair lossPair, step, tail, shift float64) *lossGrid {
	lo, hi := pair.span(tail)
	first, last := int(math.Floor(lo/step))-1, int(math.Ceil(hi/step))
	g := &lossGrid{step: step, first: first, mass: make([]float64, last-first+1)}
	low := pair.tails((float64(first) - 0.5) * step)
	for i := range g.mass {
		high := pair.tails(g.loss(i) + step/2)
		p, q := between(low.pBelow, high.pBelow, low.pAbove, high.pAbove),
			between(low.qBelow, high.qBelow, low.qAbove, high.qAbove)
		low = high
		if p == 0 || q == 0 {
			continue // dropping mass makes epsilon smaller as well
		}
		if below := math.Floor((math.Log(p/q) - g.loss(i) + shift) / step); below >= float64(-i) { // false for NaN
			g.mass[i+int(min(0, below))] += p
		}
	}
	return g.ready()
}

// lowest is pairsEpsilon from below: on a grid four times as fine, with rounding subtracted and nothing added for
// mass outside of the window; 0 if rounding matters.
func lowest(pairs []countedPair, delta float64) float64 {
	count := 0.0
	for _, p := range pairs {
		count += p.count
	}
	tail := delta * tailShare / count
	look, width, ok := firstLook(pairs, tail)
	if !ok {
		return 0
	}
	order, guess := look.tilt(delta)
	_, variance := look.tilted(order)
	variance = max(variance, square(guess/1000))
	step := max(math.Sqrt(6*gridError/16*variance/count), width/(maxGrid/2))
	down, shift := newComposition(), 0.0
	for i, p := range pairs {
		_, v := look.parts[i].grid.tilted(order)
		own := step * min(1, step/math.Sqrt(v))
		down.parts = append(down.parts, lossPart{discretizeDown(p.pair, step, tail, own), p.count})
		shift += p.count * own
	}
	for range 4 {
		mean, variance := down.tilted(order)
		half, below, _ := down.window(mean, variance, order, delta)
		size := 64
		for float64(size)*step < 2*half && size < maxGrid {
			size *= 2
		}
		start := int(math.Round(mean/step)) - size/2
		tilted, log := down.sum(order, size), down.logMoment(order)
		rounding, more := down.rounding(tilted), delta*(1+1e-7+1e-13*count+2*noiseShare)
		divergence, discounted, noise := 0.0, 0.0, 0.0
		for i := size - 1; i >= 0; i-- {
			loss := float64(start+i) * step
			weight := math.Exp(log - order*loss)
			noise += rounding * weight
			discounted = discounted*math.Exp(-step) + max(0, tilted[modulo(start+i, size)]-rounding)*weight
			next := divergence + discounted*-math.Expm1(-step)
			if next > more && noise+below*weight <= delta*noiseShare {
				return max(0, loss+math.Log1p((divergence-more)/discounted)-shift)
			}
			if loss <= 0 {
				return 0
			}
			if next > more {
				break
			}
			divergence = next
		}
		order /= 4
	}
	return 0
}
