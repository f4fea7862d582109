package privacy

import (
	"math"
	"testing"
)

// The integral for any order equals the sum for whole ones, to the digits that a hundred million releases need.
// Moments of rare or very noisy samples are slightly above 1, and cutting off the integral's ends must not reduce
// that excess.
func TestMomentIntegralAtWholeOrders(t *testing.T) {
	for _, c := range []struct{ rate, sigma float64 }{
		{0.01, 1000}, {0.001, 30}, {1e-6, 0.5}, {1e-9, 1}, {0.5, 1e6}, {0.02, 0.7}, {0.3, 2}, {0.9, 0.4},
	} {
		for _, alpha := range []int{2, 3, 5, 17, 64} {
			sum := logMomentInteger(c.rate, c.sigma, alpha)
			integral := logMomentIntegral(c.rate, c.sigma, float64(alpha))
			if d := math.Abs(integral - sum); d > 2*momentError(float64(alpha))+1e-12*sum {
				t.Errorf("rate %g, multiplier %g, order %d: integral %.17g, sum %.17g", c.rate, c.sigma, alpha,
					integral, sum)
			}
		}
	}
}

// The logarithm of a moment is 0 at order 1 and convex, so the divergence grows with the order. Fractional orders
// must be consistent with whole ones, whatever the count.
func TestFractionalOrdersKeepInLine(t *testing.T) {
	for _, c := range []struct{ rate, sigma float64 }{{0.01, 1000}, {0.001, 30}, {1e-6, 0.5}, {0.02, 0.7}, {0.3, 2}} {
		last := 0.0
		for _, alpha := range orders {
			if alpha > 64 {
				break
			}
			rho := subsampledRDP(c.rate, c.sigma, alpha)
			if slack := 2 * momentError(alpha) / (alpha - 1); rho < last*(1-1e-12)-slack {
				t.Errorf("rate %g, multiplier %g, order %g: divergence falls from %.17g to %.17g", c.rate, c.sigma,
					alpha, last, rho)
			}
			last = rho
		}
	}
}
