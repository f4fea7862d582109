package gnmax

import (
	"math"
	"testing"

	"github.com/conclave-dp/conclave/internal/normal"
)

// lattice has the discrete Gaussian with variance parameter s² in logarithms, which stay accurate far into the tail.
type lattice struct{ s2, logZ float64 }

func newLattice(s2 float64) lattice {
	z := 1.0
	for k := 1.0; k*k/(2*s2) < 750; k++ {
		z += 2 * math.Exp(-k*k/(2*s2))
	}
	return lattice{s2: s2, logZ: math.Log(z)}
}

// logTail is log P[X >= m] for m >= 1: the mass of m times the sum of what
// follows, relative to it.
func (l lattice) logTail(m float64) float64 {
	sum := 0.0
	for j := 0.0; ; j++ {
		term := math.Exp(-(2*m*j + j*j) / (2 * l.s2))
		sum += term
		if term < 1e-18*sum {
			break
		}
	}
	return -m*m/(2*l.s2) - l.logZ + math.Log(sum)
}

// quantile is z(m) of the package's documentation.
func (l lattice) quantile(m float64) float64 {
	if m <= 0 {
		return -l.quantile(1 - m) // P[X >= m] = 1 - P[X >= 1-m] by symmetry
	}
	return normal.TailInverse(l.logTail(m))
}

// steepest is the supremum of z(m) - z(m-1): all m from 0 to 12 s, then in steps of 2% to 40 s², beyond which only
// powers of m change.
func (l lattice) steepest() float64 {
	s := math.Sqrt(l.s2)
	mu := 0.0
	for m := 1.0; m <= max(40*l.s2, 60); m = max(m+1, math.Floor(m*stepAfter(m, 12*s))) {
		mu = max(mu, l.quantile(m)-l.quantile(m-1))
	}
	return mu
}

func stepAfter(m, dense float64) float64 {
	if m < dense {
		return 1
	}
	return 1.02
}

// The claim that the charge for discrete Gaussian noise relies on, in the range where it is computed. From
// computedBelow on it is proved.
func TestLatticeMargin(t *testing.T) {
	const rounding = 1e-12
	step := 1.3
	if testing.Short() {
		step = 2.3
	}
	for sigma := 1.0; sigma < 1.2*computedBelow; sigma *= step {
		mu := newLattice(variance(mustSigma(t, sigma))).steepest()
		if mu > 1/sigma*(1+rounding) {
			t.Errorf("sigma %v: the noise is %v-GDP per unit, charged for %v", sigma, mu, 1/sigma)
		}
		// Without a margin the claim fails, so the test can detect that.
		if bare := newLattice(sigma * sigma).steepest(); bare <= 1/sigma {
			t.Errorf("sigma %v: no margin is needed (%v); the test sees nothing", sigma, bare)
		}
		// 1/12 is what the centre needs for large sigma; a smaller margin fails, too.
		if sigma >= 4 && sigma <= 40 {
			if less := newLattice(sigma*sigma + 0.08).steepest(); less <= 1/sigma {
				t.Errorf("sigma %v: a margin of 0.08 is enough (%v); the test is too coarse", sigma, less)
			}
		}
	}
}

// The numbers in the proof for larger sigma, starting at the tightest.
func TestLargeSigmaMargin(t *testing.T) {
	h := 2.01 * math.Exp(-8*math.Pi*math.Pi)
	eta := math.Log1p(h) - math.Log1p(-h)
	shift := 2 * 2 * math.Sqrt(math.Pi/2) * eta
	if h > 1.1e-34 || eta > 2.3e-34 || shift > 2e-33 {
		t.Errorf("h is %v, eta %v, the quantiles move by %v", h, eta, shift)
	}
	// 1/sigma - 1/sqrt(sigma²+1), without the subtraction.
	sigma := float64(maxSigma)
	root := math.Sqrt(sigma*sigma + 1)
	if room := 1 / (sigma * root * (sigma + root)); room < 1e-27 || shift > room {
		t.Errorf("the room at sigma %v is %v", sigma, room)
	}
	// Rounding with exp(-(x-y)²/8) is as uniform as the proof says.
	for y := 0.0; y < 1; y += 0.01 {
		z := 0.0
		for x := -60.0; x <= 60; x++ {
			z += math.Exp(-(x - y) * (x - y) / 8)
		}
		if math.Abs(z/math.Sqrt(8*math.Pi)-1) > 1e-14 {
			t.Errorf("Z(%v) is %v, want sqrt(8 pi)", y, z)
		}
	}
}

// Moves by many steps, as in sums: the whole trade-off curve by enumeration, in
// both directions, lies above that of d/sigma-GDP. (The hockey-stick divergences
// at all epsilon, negative ones too, are the curve's tangents: Dong, Roth, Su
// 2019, Proposition 2.12.)
func TestLargeMovesAreGaussian(t *testing.T) {
	phi := func(x float64) float64 { return math.Erfc(-x/math.Sqrt2) / 2 }
	for _, sigma := range []float64{1, 1.37, 2, 3.3, 8, 30, 100, 300} {
		noise := gaussianPMF(variance(mustSigma(t, sigma)), 17*sigma+10)
		for d := 1; float64(d) <= 5*sigma+3; d = 1 + d*5/4 {
			o := outputs{p: noise.mass, q: make([]float64, len(noise.mass))}
			for i := range o.q {
				o.q[i] = noise.at(noise.from + i - d)
			}
			mu := float64(d) / sigma
			for k := -6.0; k <= 6; k += 0.4 {
				epsilon := k * mu
				charged := phi(mu/2-k) - math.Exp(epsilon)*phi(-mu/2-k)
				rounding := 1e-11*charged + 1e-14*(1+math.Exp(epsilon))
				for _, o := range []outputs{o, {p: o.q, q: o.p}} {
					if got := o.hockeyStick(epsilon); got > charged+rounding {
						t.Errorf("sigma %v moved by %d: delta at %v is %v, charged for %v", sigma, d, epsilon, got,
							charged)
					}
				}
			}
		}
	}
}
