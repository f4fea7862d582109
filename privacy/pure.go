package privacy

import "math"

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
// written below so that neither small nor large arguments lose digits.
func pureRDP(epsilon, alpha float64) float64 {
	if alpha*epsilon < 1 {
		// cosh(a) - cosh(b) = 2 sinh((a+b)/2) sinh((a-b)/2)
		excess := 2 * math.Sinh(alpha*epsilon/2) * math.Sinh((alpha-1)*epsilon/2) / math.Cosh(epsilon/2)
		return math.Log1p(excess) / (alpha - 1)
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
	return 2 * normalTailInverse(-epsilon-math.Log1p(math.Exp(-epsilon)))
}
