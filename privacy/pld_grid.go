package privacy

import "math"

// rounding says on which side of the truth a figure lies.
type rounding int

const (
	pessimistic rounding = iota // never below: for claims
	optimistic                  // never above: to see how far a claim may be off
)

// lossGrid is a privacy loss distribution under P on multiples of step.
type lossGrid struct {
	step  float64
	first int       // mass[0] is at loss first*step
	mass  []float64 // sum with infinite is 1, up to rounding
	// logMass holds the logarithms of mass.
	logMass []float64
	// infinite is the probability of a loss for which there is no bound.
	infinite float64
	// lost is what an optimistic grid moved down by: true losses are larger by
	// up to that much.
	lost float64
}

func (g *lossGrid) loss(i int) float64 { return float64(g.first+i) * g.step }

// discretize puts the losses of a pair on a grid. tail is the mass on each end
// that may be moved.
//
// Pessimistic. The mass between two neighbouring points goes to these two, so
// that its sums under P and under Q stay what they are. The hockey-stick
// divergence then is exact at the points and lies on straight lines (in
// e^epsilon) between them, above the true one, which is convex ("connect the
// dots", Doroshenko et al. 2022). The lower tail moves up to the first
// point, the upper tail to infinity.
//
// Optimistic. The mass around each point becomes one outcome: merging outcomes
// is post-processing and reveals less. Its loss lies a little beside the point,
// by about step²/12 times the slope of the log density. Where it lies below by
// more than step²/deviation it is moved to the point before, and for the others
// the whole grid counts as shifted by that much.
func discretize(pair lossPair, step, tail float64) *lossGrid {
	lo, hi := pair.span(tail)
	first, last := int(math.Floor(lo/step)), int(math.Ceil(hi/step))
	g := &lossGrid{step: step, first: first, mass: make([]float64, last-first+1)}
	low := pair.tails(float64(first) * step)
	g.mass[0] = low.pBelow
	width := -math.Expm1(-step)
	for i := 1; i < len(g.mass); i++ {
		high := pair.tails(g.loss(i))
		p, q := between(low.pBelow, high.pBelow, low.pAbove, high.pAbove), between(low.qBelow, high.qBelow, low.qAbove, high.qAbove)
		// a + b = p and a e^-l + b e^-(l+step) = q, with l the lower loss.
		ratio := math.Exp(g.loss(i - 1))
		b := (p - q*ratio) / width
		// Rounding of the tails, magnified by the division, is paid for upwards.
		b += 4e-16 * (min(low.pBelow, low.pAbove) + ratio*min(low.qBelow, low.qAbove)) / width
		if b = max(0, b); !(b < p) {
			b = p // also where b is not a number
		}
		g.mass[i] += b
		g.mass[i-1] += p - b
		low = high
	}
	g.infinite = low.pAbove
	return g.ready()
}

// between is the mass of an interval from the tails at its ends, by the side on
// which they are small.
func between(below1, below2, above1, above2 float64) float64 {
	if below2 < 0.5 {
		return max(0, below2-below1)
	}
	if above1 < 0.5 {
		return max(0, above1-above2)
	}
	return max(0, 1-below1-above2)
}

func discretizeDown(pair lossPair, step, tail, deviation float64) *lossGrid {
	lo, hi := pair.span(tail)
	first, last := int(math.Floor(lo/step))-1, int(math.Ceil(hi/step))
	shift := step * min(1, step/deviation)
	g := &lossGrid{step: step, first: first, mass: make([]float64, last-first+1), lost: shift}
	low := pair.tails((float64(first) - 0.5) * step)
	for i := range g.mass {
		high := pair.tails(g.loss(i) + step/2)
		p, q := between(low.pBelow, high.pBelow, low.pAbove, high.pAbove), between(low.qBelow, high.qBelow, low.qAbove, high.qAbove)
		low = high
		if p == 0 || q == 0 {
			continue // dropping mass is optimistic as well
		}
		if below := math.Floor((math.Log(p/q) - g.loss(i) + shift) / step); below >= float64(-i) { // false for NaN
			g.mass[i+int(min(0, below))] += p
		}
	}
	return g.ready()
}

func (g *lossGrid) ready() *lossGrid {
	g.logMass = make([]float64, len(g.mass))
	for i, p := range g.mass {
		g.logMass[i] = math.Log(p)
	}
	return g
}

// whole says whether no mass was lost to numbers that are none.
func (g *lossGrid) whole() bool {
	sum := g.infinite
	for _, p := range g.mass {
		sum += p
	}
	return sum >= 1-1e-9 && finite(sum)
}

// negligible is a logarithm below which a term does not change a sum of some
// millions.
const negligible = -60

// logMoment is log E[e^(order L)] of the finite part.
func (g *lossGrid) logMoment(order float64) float64 {
	largest := math.Inf(-1)
	for i, log := range g.logMass {
		largest = max(largest, order*g.loss(i)+log)
	}
	if !finite(largest) {
		return largest
	}
	sum := 0.0
	for i, log := range g.logMass {
		if x := order*g.loss(i) + log - largest; x > negligible {
			sum += math.Exp(x)
		}
	}
	return largest + math.Log(sum)
}

// tilted returns mean and variance of the loss under masses proportional to
// p e^(order loss).
func (g *lossGrid) tilted(order float64) (mean, variance float64) {
	log := g.logMoment(order)
	square := 0.0
	for i, logMass := range g.logMass {
		if x := order*g.loss(i) + logMass - log; x > negligible {
			p, at := math.Exp(x), g.loss(i)
			mean += p * at
			square += p * at * at
		}
	}
	return mean, max(0, square-mean*mean)
}
