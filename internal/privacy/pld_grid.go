package privacy

import (
	"math"
	"slices"
)

// lossGrid is a privacy loss distribution under P on multiples of step.
type lossGrid struct {
	step  float64
	first int       // mass[0] is at loss first*step
	mass  []float64 // with infinite, the sum is 1 up to rounding
	// logMass holds the logarithms of mass, logMost the largest one in each block.
	logMass, logMost []float64
	// infinite is the probability of an unbounded loss.
	infinite float64
}

func (g *lossGrid) loss(i int) float64 { return float64(g.first+i) * g.step }

// discretize puts the losses of a pair on a grid. tail is the mass on each end that may be moved.
//
// The mass between two neighbouring points goes to these two, so that its sums under P and under Q are unchanged.
// The hockey-stick divergence is then exact at the points, and linear in e^epsilon between them. There it lies
// above the true one, which is convex ("connect the dots", Doroshenko et al. 2022). The lower tail moves up to the
// first point, the upper tail to infinity.
func discretize(pair lossPair, step, tail float64) *lossGrid {
	lo, hi := pair.span(tail)
	first, last := int(math.Floor(lo/step)), int(math.Ceil(hi/step))
	g := &lossGrid{step: step, first: first, mass: make([]float64, last-first+1)}
	low := pair.tails(float64(first) * step)
	g.mass[0] = low.pBelow
	width := -math.Expm1(-step)
	for i := 1; i < len(g.mass); i++ {
		high := pair.tails(g.loss(i))
		p, q := between(low.pBelow, high.pBelow, low.pAbove, high.pAbove),
			between(low.qBelow, high.qBelow, low.qAbove, high.qAbove)
		// a + b = p and a e^-l + b e^-(l+step) = q, with l the lower loss.
		ratio := math.Exp(g.loss(i - 1))
		b := (p - q*ratio) / width
		// The division magnifies the rounding of the tails, so the mass is rounded up.
		b += 4e-16 * (min(low.pBelow, low.pAbove) + ratio*min(low.qBelow, low.qAbove)) / width
		if b = max(0, b); !(b < p) {
			b = p // also if b is not a number
		}
		g.mass[i] += b
		g.mass[i-1] += p - b
		low = high
	}
	g.infinite = low.pAbove
	return g.ready()
}

// between is the mass of an interval, computed from the tails at its ends on the side where they are small.
func between(below1, below2, above1, above2 float64) float64 {
	if below2 < 0.5 {
		return max(0, below2-below1)
	}
	if above1 < 0.5 {
		return max(0, above1-above2)
	}
	return max(0, 1-below1-above2)
}

func (g *lossGrid) ready() *lossGrid {
	g.logMass = make([]float64, len(g.mass))
	for i, p := range g.mass {
		g.logMass[i] = math.Log(p)
	}
	for block := range slices.Chunk(g.logMass, momentBlock) {
		g.logMost = append(g.logMost, slices.Max(block))
	}
	return g
}

// whole reports whether no mass was lost to NaN.
func (g *lossGrid) whole() bool {
	sum := g.infinite
	for _, p := range g.mass {
		sum += p
	}
	return sum >= 1-1e-9 && finite(sum)
}

// negligible is the logarithm below which a term does not change a sum of some millions of terms.
const negligible = -60

// momentBlock is the number of neighbouring points that share one exponential in a moment. The powers between them
// are products, with relative errors of about 1e-14.
const momentBlock = 64

const (
	// steepest is the largest change of order times loss within a block.
	steepest = 30
	// lightest is the logarithm below which masses are too close to the smallest float64 for products.
	lightest = -600
)

// logMoment is log E[e^(order L)] of the finite part.
func (g *lossGrid) logMoment(order float64) float64 {
	rise := order * g.step
	across := math.Abs(rise) * momentBlock
	if !(across < steepest) {
		return g.steepMoment(order)
	}
	// The largest term is at most largest, and not far below it.
	largest := math.Inf(-1)
	for b := range g.logMost {
		largest = max(largest, g.mostOf(b, order))
	}
	if !finite(largest) {
		return largest
	}
	ratio, sum := math.Exp(rise), 0.0
	for b, most := range g.logMost {
		if !(g.mostOf(b, order)-largest > negligible) {
			continue
		}
		masses, logs := g.block(g.mass, b), g.block(g.logMass, b)
		start := order*g.loss(b*momentBlock) - largest
		if most > lightest {
			sum += math.Exp(start) * powerSum(masses, ratio)
			continue
		}
		for i, log := range logs {
			sum += math.Exp(start + float64(i)*rise + log)
		}
	}
	return largest + math.Log(sum)
}

// mostOf bounds the logarithms of a block's terms from above.
func (g *lossGrid) mostOf(b int, order float64) float64 {
	first := b * momentBlock
	return g.logMost[b] + max(order*g.loss(first), order*g.loss(first+momentBlock))
}

func (g *lossGrid) block(all []float64, b int) []float64 {
	return all[b*momentBlock : min((b+1)*momentBlock, len(all))]
}

// powerSum is the sum of masses[i] ratio^i.
func powerSum(masses []float64, ratio float64) float64 {
	// Four independent sums, for parallel execution.
	r2 := ratio * ratio
	r4 := r2 * r2
	var sums [4]float64
	powers := [4]float64{1, ratio, r2, r2 * ratio}
	for ; len(masses) >= 4; masses = masses[4:] {
		for j, m := range masses[:4] {
			sums[j] += m * powers[j]
			powers[j] *= r4
		}
	}
	for j, m := range masses {
		sums[j] += m * powers[j]
	}
	return sums[0] + sums[1] + sums[2] + sums[3]
}

// steepMoment is logMoment term by term, for orders whose powers do not fit into a float64 within a block.
func (g *lossGrid) steepMoment(order float64) float64 {
	largest := math.Inf(-1)
	for b := range g.logMost {
		if g.mostOf(b, order) < largest {
			continue
		}
		for i, log := range g.block(g.logMass, b) {
			largest = max(largest, order*g.loss(b*momentBlock+i)+log)
		}
	}
	if !finite(largest) {
		return largest
	}
	sum := 0.0
	for b := range g.logMost {
		if g.mostOf(b, order)-largest < negligible {
			continue
		}
		for i, log := range g.block(g.logMass, b) {
			if x := order*g.loss(b*momentBlock+i) + log - largest; x > negligible {
				sum += math.Exp(x)
			}
		}
	}
	return largest + math.Log(sum)
}

// tilted returns mean and variance of the loss under masses proportional to p e^(order loss).
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
