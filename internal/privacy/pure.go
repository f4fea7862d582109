package privacy

import (
	"math"

	"github.com/conclave-dp/conclave/internal/normal"
)

// pureRDP is the largest Rényi divergence of order alpha that two outputs of an
// (epsilon, 0)-DP mechanism can have. Randomized response attains it (Kairouz,
// Oh, Viswanath 2015; Bun and Steinke 2016, proof of Proposition 3.3), and so does
// discrete Laplace noise of scale 1/epsilon moved by one.
//
// With p = e^epsilon/(1+e^epsilon) it is
//
//	log(p^alpha (1-p)^(1-alpha) + (1-p)^alpha p^(1-alpha)) / (alpha-1)
//	= log(cosh((alpha-1/2) epsilon) / cosh(epsilon/2)) / (alpha-1),
//
// written below so that neither small nor large arguments lose precision.
func pureRDP(epsilon, alpha float64) float64 {
	if alpha*epsilon < 1 {
		// cosh(a) - cosh(b) = 2 sinh((a+b)/2) sinh((a-b)/2)
		excess := 2 * math.Sinh(alpha*epsilon/2) * math.Sinh((alpha-1)*epsilon/2) / math.Cosh(epsilon/2)
		return max(leastCost, math.Log1p(excess)/(alpha-1))
	}
	return epsilon + (math.Log1p(math.Exp(-(2*alpha-1)*epsilon))-math.Log1p(math.Exp(-epsilon)))/(alpha-1)
}

// pureMu is the smallest mu such that every (epsilon, 0)-DP mechanism is
// mu-GDP.
//
// The trade-off function of (epsilon, 0)-DP (Dong, Roth, Su 2019, Proposition 2.5)
// is two straight lines that meet where both errors are 1/(1+e^epsilon). The
// curve of mu-GDP is convex and shares the lines' outer ends, so it lies below
// them as soon as it does at the corner: Phi(-mu/2) = 1/(1+e^epsilon).
func pureMu(epsilon float64) float64 {
	if epsilon < 2 {
		return 2 * math.Sqrt2 * math.Erfinv(math.Tanh(epsilon/2))
	}
	return 2 * normal.TailInverse(-epsilon-math.Log1p(math.Exp(-epsilon)))
}

// rangeMu is the smallest mu such that every mechanism whose privacy loss moves in a range of width epsilon is
// mu-GDP: half the mu that pure DP with that epsilon needs.
//
// Why: all of them are dominated by rangePair, whose hockey stick at 0 is tanh(epsilon/4). That of mu-GDP, 2
// Phi(mu/2) - 1, is at least as large from mu = pureMu(epsilon/2) on. With this mu let D(y) be the Gaussian hockey
// stick minus the pair's. Both are symmetric, so D(0) = 0 implies equal error rates there and D'(0) = 0. D'(y) =
// -e^y E(y), where E is the difference of Q[L > y]. Under Q the logarithm of the Gaussian's density of L is a
// constant - y²/(2 mu²) - y/2, the pair's a constant - y/2 within [-epsilon, epsilon], so their ratio falls with
// |y|. So from 0 on, E first falls, then rises until epsilon, then falls to 0, and D first rises and then falls to
// its limit, 0: it is nowhere negative. (If E did not fall at first, D would decrease from 0 on and could not
// return to 0.) The case y < 0 follows by symmetry.
func rangeMu(epsilon float64) float64 { return pureMu(epsilon / 2) }
