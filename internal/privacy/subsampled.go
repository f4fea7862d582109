package privacy

import (
	"math"
	"sync"
)

// subsampledRDP is the Rényi divergence of order alpha of one Gaussian release
// with noise multiplier sigma on a Poisson sample of the given rate:
//
//	D_alpha((1-q) N(0, sigma²) + q N(1, sigma²) || N(0, sigma²))
//
// The other direction is smaller (Mironov, Talwar, Zhang 2019, Theorem 5 and
// Corollary 7), so this is the cost for adding and for removing a unit. It is
// infinite for orders above maxSubsampledOrder that are not needed in practice.
func subsampledRDP(rate, sigma, alpha float64) float64 {
	switch {
	case rate == 1:
		return alpha * squaredCost(1/sigma) / 2
	case alpha > maxSubsampledOrder:
		return math.Inf(1)
	case alpha == math.Trunc(alpha):
		return logMomentInteger(rate, sigma, int(alpha)) / (alpha - 1)
	default:
		return logMomentFraction(rate, sigma, alpha) / (alpha - 1)
	}
}

// maxSubsampledOrder keeps the sum short. Higher orders would only matter for an epsilon below about
// log(1/delta)/4096.
const maxSubsampledOrder = 4096

// logMomentInteger is log E[((1-q) + q exp((2z-1)/(2 sigma²)))^alpha] under
// z ~ N(0, sigma²) for a whole alpha:
//
//	log sum_k binomial(alpha, k) (1-q)^(alpha-k) q^k exp((k²-k)/(2 sigma²))
//
// (Mironov, Talwar, Zhang 2019, section 3.3, equation for integer orders).
func logMomentInteger(rate, sigma float64, alpha int) float64 {
	logRate, logRest := math.Log(rate), math.Log1p(-rate)
	sum := newLogSum()
	logBinomial := 0.0
	for k := range alpha + 1 {
		if k > 0 {
			logBinomial += math.Log(float64(alpha-k+1)) - math.Log(float64(k))
		}
		x := float64(k)
		sum.add(logBinomial + x*logRate + float64(alpha-k)*logRest + (x*x-x)/(2*sigma*sigma))
	}
	return max(0, sum.log()) + momentError(float64(alpha))
}

// maxPoints bounds the work for one order; it is reached for noise multipliers
// below about 0.02 only.
const maxPoints = 1 << 17

// logMomentFraction is the same for any alpha. If the integral would take too many points, it interpolates between
// whole orders. That is never too small: the logarithm of a moment is convex in its order.
func logMomentFraction(rate, sigma, alpha float64) float64 {
	if (alpha/sigma+2*momentReach)/momentStep(sigma) < maxPoints {
		return logMomentIntegral(rate, sigma, alpha)
	}
	below := math.Floor(alpha)
	part := alpha - below
	return (1-part)*logMomentInteger(rate, sigma, int(below)) + part*logMomentInteger(rate, sigma, int(below)+1)
}

// momentReach is how far the integral extends left of 0 and right of the last peak, in standard deviations.
const momentReach = 10

// momentStep makes the error of the rule, exp(-2 pi² sigma/step) times the largest growth of the integrand within
// the strip, less than 1e-16.
func momentStep(sigma float64) float64 { return min(0.1, sigma/4) }

// logMomentIntegral is the moment for any alpha, by the trapezoidal rule. For a
// function that is analytic in a strip around the line the rule's error falls
// as exp(-2 pi a/step) with the strip's half width a (Trefethen and Weideman
// 2014, Theorem 5.1). The nearest singularity lies where
// (1-q) + q exp(z/sigma - 1/(2 sigma²)) is zero, at height pi sigma.
func logMomentIntegral(rate, sigma, alpha float64) float64 {
	step := momentStep(sigma)
	to := alpha/sigma + momentReach
	sum := newLogSum()
	for i := 0; ; i++ {
		z := float64(i)*step - momentReach
		if z > to {
			break
		}
		sum.add(-z*z/2 + alpha*logMixture(rate, z/sigma-1/(2*sigma*sigma)))
	}
	return max(0, sum.log()+math.Log(step)-math.Log(2*math.Pi)/2) + momentError(alpha)
}

// momentError exceeds the rounding error of the logarithm of a moment, which is often slightly above 1, so that many
// releases multiply the error.
func momentError(alpha float64) float64 { return 2e-15 * (4 + alpha) }

// logMixture is log(1 - q + q e^x).
func logMixture(rate, x float64) float64 {
	if x > 30 {
		return x + math.Log(rate) + math.Log1p((1-rate)/rate*math.Exp(-x))
	}
	return math.Log1p(rate * math.Expm1(x))
}

// logSum adds up numbers given by their logarithms.
type logSum struct{ largest, scaled float64 }

func newLogSum() *logSum { return &logSum{largest: math.Inf(-1)} }

func (s *logSum) add(log float64) {
	switch {
	case log <= s.largest:
		s.scaled += math.Exp(log - s.largest)
	case math.IsInf(s.largest, -1):
		s.largest, s.scaled = log, 1
	default:
		s.scaled = s.scaled*math.Exp(s.largest-log) + 1
		s.largest = log
	}
}

func (s *logSum) log() float64 { return s.largest + math.Log(s.scaled) }

// subsampledCurves caches divergences: a run asks for the same ones at every step.
var subsampledCurves = memory[divergence]{most: 1 << 16}

type divergence struct{ rate, sigma, alpha float64 }

// memory caches the last results of a function by its arguments, up to a bound.
type memory[K comparable] struct {
	most  int
	mu    sync.Mutex
	known map[K]float64
}

func (m *memory[K]) of(arguments K, f func() float64) float64 {
	m.mu.Lock()
	y, ok := m.known[arguments]
	m.mu.Unlock()
	if ok {
		return y
	}
	y = f()
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.known) >= m.most || m.known == nil {
		m.known = map[K]float64{}
	}
	m.known[arguments] = y
	return y
}

// remembered caches f, which is called once for each x.
func remembered[K comparable](f func(K) float64) func(K) float64 {
	m := memory[K]{most: 1000}
	return func(x K) float64 { return m.of(x, func() float64 { return f(x) }) }
}
