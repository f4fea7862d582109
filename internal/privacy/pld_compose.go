package privacy

import (
	"math"
	"math/bits"
	"sync"

	"gonum.org/v1/gonum/dsp/fourier"
	"gonum.org/v1/gonum/floats"
)

// composition is a sum of independent losses.
type composition struct {
	parts []lossPart
	known map[float64]float64 // logMoment by order
}

func newComposition() *composition {
	return &composition{known: make(map[float64]float64)}
}

// lossPart is count independent losses of one distribution.
type lossPart struct {
	grid  *lossGrid
	count float64
}

const (
	maxGrid = 1 << 22 // points of one grid and of the sum
	// window is how many standard deviations of the tilted sum are kept on
	// each side, at first.
	window = 12
	// noiseShare is the share of delta that rounding may take before another order is tried.
	noiseShare = 1e-5
	// noiseBound is the share of delta above which a figure is rejected, because only the typical size of rounding
	// errors is known, with a margin.
	noiseBound      = 0.1
	maxCompositions = 1e8
	// tailShare is the share of delta that the mass right of grid and window may take.
	tailShare = 1e-7
	// leftShare is the share of the tilted sum that may lie left of the window. It wraps around to the right end
	// and increases epsilon slightly.
	leftShare = 1e-10
)

func (c *composition) step() float64 { return c.parts[0].grid.step }

// count is the number of losses.
func (c *composition) count() float64 {
	sum := 0.0
	for _, p := range c.parts {
		sum += p.count
	}
	return sum
}

// logMoment is log E[e^(order sum)] of the finite part.
func (c *composition) logMoment(order float64) float64 {
	if sum, ok := c.known[order]; ok {
		return sum
	}
	sum := 0.0
	for _, p := range c.parts {
		sum += p.count * p.grid.logMoment(order)
	}
	c.known[order] = sum
	return sum
}

func (c *composition) tilted(order float64) (mean, variance float64) {
	for _, p := range c.parts {
		m, v := p.grid.tilted(order)
		mean += p.count * m
		variance += p.count * v
	}
	return mean, variance
}

// tilt returns the order that minimizes Chernoff's bound on epsilon, (log E[e^(order sum)] - log delta) / order,
// approximately, and that bound. The sum tilted by this order lies around the wanted epsilon.
func (c *composition) tilt(delta float64) (order, epsilon float64) {
	bound := func(x float64) float64 { return (c.logMoment(math.Exp(x)) - math.Log(delta)) / math.Exp(x) }
	// The bound falls, then rises: golden section on a logarithmic scale.
	lo, hi := math.Log(1e-6), math.Log(1e7)
	left, right := hi-(hi-lo)/math.Phi, lo+(hi-lo)/math.Phi
	atLeft, atRight := bound(left), bound(right)
	for hi-lo > 0.02 {
		if !(atLeft > atRight) { // true for NaN, which large orders may give
			hi, right, atRight = right, left, atLeft
			left = hi - (hi-lo)/math.Phi
			atLeft = bound(left)
		} else {
			lo, left, atLeft = left, right, atRight
			right = lo + (hi-lo)/math.Phi
			atRight = bound(right)
		}
	}
	x := (lo + hi) / 2
	return math.Exp(x), bound(x)
}

func (c *composition) ends() (smallest, largest float64) {
	for _, p := range c.parts {
		smallest += p.count * p.grid.loss(0)
		largest += p.count * p.grid.loss(len(p.grid.mass)-1)
	}
	return smallest, largest
}

// massAbove bounds P[sum > loss], massBelow the tilted P[sum < loss], both by Chernoff's bound at the given
// distance from the order of the tilt. Any distance is valid.
func (c *composition) massAbove(loss, order, distance float64) float64 {
	return probability(c.logMoment(order+distance) - (order+distance)*loss)
}

func (c *composition) massBelow(loss, order, distance float64) float64 {
	return probability(c.logMoment(order-distance) - c.logMoment(order) + distance*loss)
}

// probability is e^log, or 1 if that is larger or not a number.
func probability(log float64) float64 {
	if !(log < 0) {
		return 1
	}
	return math.Exp(log)
}

// epsilon is the smallest epsilon >= 0 at delta.
//
// The masses are tilted by e^(order loss) before they are transformed (as in Alghamdi et al. 2023, but with a
// transform instead of an expansion). This moves the weight of the sum to where epsilon will be. It keeps the
// relative precision of the tail for any delta, and allows a window around this place instead of the whole sum.
// Mass that wraps around from the left only increases the result; mass that would wrap from the right is bounded
// and added to delta. Every order gives a valid figure; a smaller order is tried if rounding matters.
func (c *composition) epsilon(delta, order float64) float64 {
	// Tilted masses have relative errors of about 1e-13, their products count times that.
	left := delta * (1 - 1e-7 - 1e-13*c.count())
	for _, p := range c.parts {
		left -= p.count * p.grid.infinite
	}
	best := math.Inf(1)
	for range 12 {
		mean, variance := c.tilted(order)
		if !finite(variance) || !(math.Abs(mean) < math.MaxInt32*c.step()) {
			break
		}
		half, below, beyond := c.window(mean, variance, order, delta)
		size := 64
		for float64(size)*c.step() < 2*half && size < maxGrid {
			size *= 2
		}
		start := int(math.Round(mean/c.step())) - size/2
		if left > beyond {
			epsilon, noise := c.solve(c.sum(order, size), start, order, left-beyond, below)
			if size >= maxGrid/8 && epsilon > best*(1-1e-4) {
				break // another order would take long and gain little
			}
			if noise <= delta*noiseBound {
				best = min(best, epsilon)
			}
			if noise <= delta*noiseShare {
				return max(0, best)
			}
		}
		if order /= 4; order < 1e-9 {
			order = 0
		}
	}
	return best
}

// distance is an upper bound on the hockey-stick divergence of the sum at epsilon 0, E[(1 - e^-L)+]. tail bounds
// the mass lost beyond the window.
func (c *composition) distance(tail float64) float64 {
	mean, variance := c.tilted(0)
	half, below, beyond := c.window(mean, variance, 0, tail)
	size := 64
	for float64(size)*c.step() < 2*half && size < maxGrid {
		size *= 2
	}
	start := int(math.Round(mean/c.step())) - size/2
	masses := c.sum(0, size)
	rounding, whole := c.rounding(masses), math.Exp(c.logMoment(0))
	total := below + beyond
	for _, p := range c.parts {
		total += p.count * p.grid.infinite
	}
	for i := range masses {
		if loss := float64(start+i) * c.step(); loss > 0 {
			total -= math.Expm1(-loss) * (max(0, masses[modulo(start+i, size)]) + rounding) * whole
		}
	}
	return min(1, total)
}

// window returns half the width of a window around the tilted mean, wide enough that almost none of the tilted sum
// lies left of it, and a bound on the mass on both sides.
func (c *composition) window(mean, variance, order, delta float64) (half, below, beyond float64) {
	smallest, largest := c.ends()
	largestHalf := maxGrid / 2 * c.step()
	half = min(window*math.Sqrt(variance)+64*c.step(), largestHalf)
	for ; ; half = min(1.5*half, largestHalf) {
		// The window lies on the grid, up to two steps off.
		left, right := mean-half+2*c.step(), mean+half-2*c.step()
		// Try the best distance for a normal distribution, smaller ones, and those at which E[e^-L] = 1 bounds a
		// long tail to the left.
		normal := half / variance
		below, beyond = 1, 1
		for _, distance := range []float64{normal, normal / 2, normal / 5, normal / 20, order + 1, 2 * (order + 1)} {
			below = min(below, c.massBelow(left, order, distance))
			beyond = min(beyond, c.massAbove(right, order, distance))
			if left <= smallest {
				below = 0
			}
			if right >= largest {
				beyond = 0
			}
			if below <= leftShare && beyond <= delta*tailShare {
				return half, below, beyond
			}
		}
		if half >= largestHalf {
			return half, below, beyond
		}
	}
}

// sum returns the tilted distribution of the sum, modulo size.
func (c *composition) sum(order float64, size int) []float64 {
	transform, release := transformOf(size)
	defer release()
	total := make([]complex128, size/2+1)
	for i := range total {
		total[i] = 1
	}
	folded := make([]float64, size)
	var part []complex128
	for _, p := range c.parts {
		clear(folded)
		log := p.grid.logMoment(order)
		for i, logMass := range p.grid.logMass {
			if x := order*p.grid.loss(i) + logMass - log; x > 12*negligible {
				folded[modulo(p.grid.first+i, size)] += math.Exp(x)
			}
		}
		part = transform.Coefficients(part, folded)
		for i, x := range part {
			total[i] *= power(x, int64(p.count))
		}
	}
	tilted := transform.Sequence(folded, total)
	for i := range tilted {
		tilted[i] /= float64(size)
	}
	return tilted
}

// transforms caches transforms by the binary logarithm of their size, up to a bound. A calibration asks for the
// same ones repeatedly, and computing their sines takes a tenth of its time.
var transforms [17]sync.Pool

// transformOf returns a transform of the given size, a power of two, for use until release is called.
func transformOf(size int) (transform *fourier.FFT, release func()) {
	log := bits.TrailingZeros(uint(size))
	if log >= len(transforms) {
		return fourier.NewFFT(size), func() {}
	}
	kept := &transforms[log]
	transform, ok := kept.Get().(*fourier.FFT)
	if !ok {
		transform = fourier.NewFFT(size)
	}
	return transform, func() { kept.Put(transform) }
}

// power is x^n for n >= 0 and |x| at most about 1. It is 0 if it is too small to change an entry of a sum by more
// than rounding does.
func power(x complex128, n int64) complex128 {
	const nothing = 1e-70
	result := complex(1, 0)
	for ; n > 0; n >>= 1 {
		if real(x)*real(x)+imag(x)*imag(x) < nothing {
			return 0
		}
		if n&1 == 1 {
			result *= x
		}
		x *= x
	}
	return result
}

// solve looks for the epsilon with hockey-stick divergence delta, from the right end of the window. It also returns
// what rounding and the tilted mass below the window may have added to the divergence there. An epsilon left of the
// window is returned as the window's left end, with infinite noise.
//
// With A the mass above epsilon and C the sum of mass times e^(l'-l), for l' the point right of epsilon, the
// divergence is A - C e^(epsilon-l'). A step to the left adds C (1 - e^-step). Adding up steps, instead of taking
// a difference, keeps precision for small losses.
func (c *composition) solve(tilted []float64, start int, order, delta, below float64) (epsilon, noise float64) {
	step, log := c.step(), c.logMoment(order)
	decay, rise := math.Exp(-step), -math.Expm1(-step)
	rounding := c.rounding(tilted)
	divergence, discounted := 0.0, 0.0
	for i := len(tilted) - 1; i >= 0; i-- {
		loss := float64(start+i) * step
		weight := math.Exp(log - order*loss)
		mass := max(0, tilted[modulo(start+i, len(tilted))]) + rounding
		noise += rounding * weight
		discounted = discounted*decay + mass*weight
		if next := divergence + discounted*rise; next > delta {
			return max(0, loss+math.Log1p((divergence-delta)/discounted)), noise + below*weight
		} else {
			divergence = next
		}
		if loss <= 0 {
			return 0, 0
		}
	}
	return float64(start) * step, math.Inf(1)
}

// rounding bounds the error of one entry. A transform has an error of about 1e-16 times log n of its input's norm
// (Higham 2002, Theorem 24.2), spread over n entries; a power of coefficients has count times that.
func (c *composition) rounding(tilted []float64) float64 {
	n := float64(len(tilted))
	return 4e-16 * math.Log2(n) * (1 + c.count()) * floats.Norm(tilted, 2) / math.Sqrt(n)
}

func modulo(i, n int) int {
	if i %= n; i < 0 {
		return i + n
	}
	return i
}
