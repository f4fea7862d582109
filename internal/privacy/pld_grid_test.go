package privacy

import (
	"math"
	"math/big"
	"math/cmplx"
	"testing"

	"github.com/conclave-dp/conclave/internal/normal"
)

// hockeySticks returns the divergence of a grid at its points, by the recursion
// from the right in which nothing cancels.
func (g *lossGrid) hockeySticks() []float64 {
	sticks := make([]float64, len(g.mass))
	divergence, discounted := g.infinite, 0.0
	for i := len(g.mass) - 1; i >= 0; i-- {
		sticks[i] = divergence
		discounted = discounted*math.Exp(-g.step) + g.mass[i]
		divergence += discounted * -math.Expm1(-g.step)
	}
	return sticks
}

// A grid has all mass, with the mass beyond its right end as an infinite loss, and nowhere less divergence than its
// pair: at the points, between them and beyond both ends.
func TestDiscretizeLosesNothing(t *testing.T) {
	sampled := sampledPair{rate: 0.01, sigma: 0.9}
	for name, pair := range map[string]lossPair{
		"gaussian": gaussianPair{1.3}, "sampled": sampled, "swapped": swappedPair{sampled},
		"range": rangePair{0.8}, "response": responsePair{0.6},
	} {
		for _, tail := range []float64{1e-3, 1e-12} {
			lo, hi := pair.span(tail)
			for _, points := range []float64{7, 100, 3000} {
				g := discretize(pair, (hi-lo)/points, tail)
				sum := g.infinite
				for _, p := range g.mass {
					sum += p
				}
				if math.Abs(sum-1) > 1e-12 || !g.whole() {
					t.Errorf("%s, tail %g: the grid's mass is %.17g", name, tail, sum)
				}
				last := len(g.mass) - 1
				if beyond := pair.tails(g.loss(last)).pAbove; g.infinite < beyond {
					t.Errorf("%s, tail %g: infinite %g, mass %g lies right of the grid", name, tail, g.infinite, beyond)
				}
				sticks := g.hockeySticks()
				for i, stick := range sticks {
					// Both figures are off by the last digits of the tails.
					at := pair.tails(g.loss(i))
					rounding := 1e-13 * (at.pAbove + math.Exp(g.loss(i))*at.qAbove)
					if own := hockeyStick(pair, g.loss(i)); stick < own-rounding {
						t.Errorf("%s, tail %g, point %d of %d: %g is below the pair's %g", name, tail, i, last, stick,
							own)
					}
					if i == last {
						continue
					}
					// On a straight line in e^epsilon to the next point.
					between := g.loss(i) + 0.4*g.step
					part := math.Expm1(0.4*g.step) / math.Expm1(g.step)
					line := stick + part*(sticks[i+1]-stick)
					if own := hockeyStick(pair, between); line < own-rounding {
						t.Errorf("%s, tail %g, behind point %d: %g is below the pair's %g", name, tail, i, line, own)
					}
				}
				for _, further := range []float64{0.5, 3} {
					if own := hockeyStick(pair, g.loss(last)+further*g.step); g.infinite < own-1e-13*g.infinite {
						t.Errorf("%s, tail %g: %g right of the grid, the pair has %g", name, tail, g.infinite, own)
					}
				}
			}
		}
	}
}

// Where steps are so small that masses of single points are rounding, the grid
// still has no less than the pair: mu (phi(z) - z P[N > z]) at epsilon = z mu, for
// mu next to 0.
func TestDiscretizePaysForRounding(t *testing.T) {
	for _, mu := range []float64{1e-7, 1e-9} {
		const tail = 1e-30
		pair := gaussianPair{mu}
		lo, hi := pair.span(tail)
		g := discretize(pair, (hi-lo)/3000, tail)
		for i, stick := range g.hockeySticks() {
			z := g.loss(i) / mu
			if z < 0 || z > 5 {
				continue
			}
			if own := mu * (normal.Density(z) - z*normal.Tail(z)); stick < own*(1-10*mu-1e-8) || stick > own*(1+1e-3) {
				t.Errorf("mu %g at %g mu: %.10g, the pair has %.10g", mu, z, stick, own)
			}
		}
	}
}

// brokenPair has tails that are NaN somewhere, as formulas may give for extreme parameters.
type brokenPair struct{ gaussianPair }

func (b brokenPair) tails(loss float64) lossTails {
	if loss > 1 && loss < 2 {
		return lossTails{math.NaN(), math.NaN(), math.NaN(), math.NaN()}
	}
	return b.gaussianPair.tails(loss)
}

// missingPair has tails that drop a part of the mass.
type missingPair struct{ gaussianPair }

func (m missingPair) tails(loss float64) lossTails {
	tails := m.gaussianPair.tails(loss)
	if loss > 1 {
		tails.pAbove *= 0.5
		tails.pBelow *= 0.5
	}
	return tails
}

// A grid that lost mass has no figure.
func TestGridsThatLostMassAreRefused(t *testing.T) {
	for want, grids := range map[bool][]lossGrid{
		true: {{mass: []float64{0.5, 0.25}, infinite: 0.25}, {mass: []float64{1}}},
		false: {{mass: []float64{0.5, 0.25}}, {mass: []float64{0.5, math.NaN(), 0.5}},
			{mass: []float64{1}, infinite: math.Inf(1)}},
	} {
		for _, g := range grids {
			if g.whole() != want {
				t.Errorf("%v, infinite %v: whole is %v", g.mass, g.infinite, !want)
			}
		}
	}
	for _, pair := range []lossPair{brokenPair{gaussianPair{1}}, missingPair{gaussianPair{1}}} {
		if _, ok := compose([]countedPair{{pair, 1}}, 0.01, 1e-9); ok {
			t.Errorf("%T: the grid was taken", pair)
		}
		if epsilon := pairsEpsilon([]countedPair{{pair, 1}}, 1e-5, 0); !math.IsInf(epsilon, 1) {
			t.Errorf("%T: epsilon %g", pair, epsilon)
		}
	}
}

// Moments by blocks equal those term by term, for gentle and steep orders, and for masses near the smallest float64.
func TestLogMoment(t *testing.T) {
	sampled := sampledPair{rate: 0.01, sigma: 0.9}
	for name, pair := range map[string]lossPair{
		"gaussian": gaussianPair{1.3}, "wide": gaussianPair{9}, "sampled": sampled,
		"swapped": swappedPair{sampled}, "range": rangePair{0.8}, "response": responsePair{0.6},
	} {
		for _, tail := range []float64{1e-3, 1e-300} {
			lo, hi := pair.span(tail)
			for _, points := range []float64{7, 64, 3001} {
				g := discretize(pair, (hi-lo)/points, tail)
				for _, order := range []float64{-1e4, -40, -1, -1e-3, 0, 1e-6, 0.5, 1, 3, 30, 300, 1e4, 1e7} {
					want := math.Inf(-1)
					var terms []float64
					for i, log := range g.logMass {
						terms = append(terms, order*g.loss(i)+log)
						want = max(want, order*g.loss(i)+log)
					}
					sum := new(big.Float).SetPrec(100)
					for _, x := range terms {
						sum.Add(sum, big.NewFloat(math.Exp(x-want)))
					}
					terms64, _ := sum.Float64()
					want += math.Log(terms64)
					if got := g.logMoment(order); !(math.Abs(got-want) <= 2e-13*(1+math.Abs(want))) {
						t.Errorf("%s, tail %g, %v points, order %g: %.17g, want %.17g", name, tail, points, order, got,
							want)
					}
				}
			}
		}
	}
}

// Powers agree with the polar form, and are 0 if they would be negligible.
func TestPower(t *testing.T) {
	for _, r := range []float64{0, 1e-40, 1e-3, 0.7, 0.999, 1} {
		for _, phase := range []float64{0, 0.1, 2, -3} {
			for _, n := range []int64{0, 1, 2, 3, 7, 64, 1000, 123_457} {
				got, want := power(cmplx.Rect(r, phase), n),
					cmplx.Rect(math.Pow(r, float64(n)), math.Remainder(phase*float64(n), 2*math.Pi))
				if cmplx.Abs(got-want) > 1e-15*(1+float64(n))*cmplx.Abs(want)+1e-35 {
					t.Errorf("(%g, %g)^%d: %v, want %v", r, phase, n, got, want)
				}
			}
		}
	}
}
