package privacy

import (
	"math"

	"github.com/conclave-dp/conclave/internal/normal"
)

// lossPair is a pair of distributions P and Q that dominates a mechanism: at
// every epsilon its hockey-stick divergence E_P[max(0, 1 - e^(epsilon-L))], with
// the privacy loss L = log P/Q, is at least that of the mechanism's outputs on
// any two neighbours. Dominating pairs compose: the product of the pairs
// dominates the adaptive composition of the mechanisms (Zhu, Dong, Wang 2022,
// Theorem 10).
type lossPair interface {
	// tails returns the probabilities of L <= loss and L > loss under P and
	// under Q, each with small relative error where it is small.
	tails(loss float64) lossTails
	// span returns losses lo and hi: under P, at most the given mass lies below lo, and at most as much above hi.
	span(mass float64) (lo, hi float64)
}

type lossTails struct{ pBelow, pAbove, qBelow, qAbove float64 }

// gaussianPair is N(mu, 1) against N(0, 1): Gaussian mechanisms compose to it
// exactly (Dong, Roth, Su 2019, Corollary 3.3). L is N(mu²/2, mu²) under P and
// N(-mu²/2, mu²) under Q (Balle and Wang 2018, Lemma 3).
type gaussianPair struct{ mu float64 }

func (g gaussianPair) tails(loss float64) lossTails {
	p, q := loss/g.mu-g.mu/2, loss/g.mu+g.mu/2
	var t lossTails
	t.pBelow, t.pAbove = normal.Tails(p)
	t.qBelow, t.qAbove = normal.Tails(q)
	return t
}

func (g gaussianPair) span(mass float64) (lo, hi float64) {
	reach := g.mu * normal.TailInverse(math.Log(mass))
	return g.mu*g.mu/2 - reach, g.mu*g.mu/2 + reach
}

// responsePair is randomized response: L is epsilon with probability
// e^epsilon/(1+e^epsilon) under P and 1/(1+e^epsilon) under Q, otherwise
// -epsilon. It dominates every (epsilon, 0)-DP mechanism (Kairouz, Oh, Viswanath
// 2015), and integer Laplace noise on a count that moves by one is
// no better: neighbouring integers have the ratio e^epsilon or e^-epsilon,
// never one between.
type responsePair struct{ epsilon float64 }

func (r responsePair) tails(loss float64) lossTails {
	more := 1 / (1 + math.Exp(-r.epsilon))
	less := math.Exp(-r.epsilon) / (1 + math.Exp(-r.epsilon))
	switch {
	case loss < -r.epsilon:
		return lossTails{0, 1, 0, 1}
	case loss < r.epsilon:
		return lossTails{less, more, more, less}
	default:
		return lossTails{1, 0, 1, 0}
	}
}

func (r responsePair) span(float64) (lo, hi float64) { return -r.epsilon, r.epsilon }

// rangePair dominates every mechanism whose privacy loss moves in a range of width epsilon, such as the
// exponential mechanism (bounded range, Durfee and Rogers 2019). The worst case for one range [t-epsilon, t] has
// only its two ends as losses (Dong, Durfee, Rogers 2020), with hockey stick (1-e^(t-epsilon)) (1-e^(y-t)) /
// (1-e^-epsilon) at y. No t is the worst at every y. The maximum over t, at t = (y+epsilon)/2, is
//
//	(1 - e^((y-epsilon)/2))² / (1 - e^-epsilon)   for |y| <= epsilon.
//
// As a function of x = e^y it is convex, falls from 1 to 0 and is nowhere below 1 - x. It is therefore the hockey
// stick of a pair (Zhu, Dong, Wang 2022, section 3), whose Q[L > y] is minus its derivative in x.
type rangePair struct{ epsilon float64 }

func (r rangePair) tails(loss float64) lossTails {
	if loss <= -r.epsilon {
		return lossTails{0, 1, 0, 1}
	}
	if loss >= r.epsilon {
		return lossTails{1, 0, 1, 0}
	}
	whole := -math.Expm1(-r.epsilon)
	above := -math.Expm1((loss-r.epsilon)/2) / whole // under P
	below := math.Exp((loss-r.epsilon)/2) * -math.Expm1(-(loss+r.epsilon)/2) / whole
	// The same under Q with signs changed: the pair is symmetric.
	return lossTails{
		pBelow: below, pAbove: above,
		qBelow: -math.Expm1(-(loss+r.epsilon)/2) / whole,
		qAbove: math.Exp(-(loss+r.epsilon)/2) * -math.Expm1((loss-r.epsilon)/2) / whole,
	}
}

func (r rangePair) span(float64) (lo, hi float64) { return -r.epsilon, r.epsilon }

// sampledPair is one Gaussian release on a Poisson sample of the given rate, where only the first neighbour has
// the unit:
//
//	P = (1-q) N(0, sigma²) + q N(1, sigma²),   Q = N(0, sigma²)
//
// with L(x) = log(1 - q + q e^((2x-1)/(2 sigma²))), which grows with x. The pair
// dominates (Zhu, Dong, Wang 2022, Theorem 11).
type sampledPair struct{ rate, sigma float64 }

// outcome is the x with L(x) = loss; minus infinity for losses below all values of L.
func (s sampledPair) outcome(loss float64) float64 {
	excess := math.Expm1(loss) + s.rate // q e^((2x-1)/(2 sigma²))
	if excess <= 0 {
		return math.Inf(-1)
	}
	var log float64
	if loss > 30 {
		log = loss + math.Log1p((s.rate-1)*math.Exp(-loss)) - math.Log(s.rate)
	} else {
		log = math.Log(excess / s.rate)
	}
	return s.sigma*s.sigma*log + 0.5
}

func (s sampledPair) tails(loss float64) lossTails {
	x := s.outcome(loss)
	// Tails of N(0, sigma²) and N(1, sigma²) at x.
	below, above := normal.Tails(x / s.sigma)
	below1, above1 := normal.Tails((x - 1) / s.sigma)
	return lossTails{
		pBelow: (1-s.rate)*below + s.rate*below1,
		pAbove: (1-s.rate)*above + s.rate*above1,
		qBelow: below, qAbove: above,
	}
}

func (s sampledPair) span(mass float64) (lo, hi float64) {
	reach := s.sigma * normal.TailInverse(math.Log(mass))
	return s.loss(-reach), s.loss(1 + reach)
}

func (s sampledPair) loss(x float64) float64 {
	return logMixture(s.rate, (2*x-1)/(2*s.sigma*s.sigma))
}

// swappedPair is a pair with P and Q exchanged: the neighbours in the other order. Its loss is minus that of the
// original.
type swappedPair struct{ sampledPair }

func (s swappedPair) tails(loss float64) lossTails {
	// L is continuous here, so < and <= are equivalent.
	t := s.sampledPair.tails(-loss)
	return lossTails{pBelow: t.qAbove, pAbove: t.qBelow, qBelow: t.pAbove, qAbove: t.pBelow}
}

func (s swappedPair) span(mass float64) (lo, hi float64) {
	reach := s.sigma * normal.TailInverse(math.Log(mass))
	return -s.loss(reach), -s.loss(-reach)
}
