package privacy

import (
	"fmt"
	"math"
	"slices"
)

// mechanism holds what the accountants know about a kind of release. Each bound takes a validated event from
// [Event.PerUnit] and covers its whole count.
type mechanism struct {
	fields []string
	// rdp bounds the Rényi divergence of order alpha > 1, both ways.
	rdp func(e Event, alpha float64) float64
	// muSquared bounds the square of the Gaussian DP parameter mu.
	muSquared func(e Event) float64
	// gaussian says that muSquared is the exact cost of Gaussian noise and not a bound derived from pure differential
	// privacy.
	gaussian bool
	// pure is the epsilon of (epsilon, 0)-DP; nil if the mechanism has none.
	pure func(e Event) float64
}

// IsGaussian says that the event costs what Gaussian noise costs, and nothing else.
func (e Event) IsGaussian() bool {
	return mechanisms[e.Kind].gaussian || e.Kind == SubsampledGaussian && e.Rate == 1
}

func (m mechanism) has(field string) bool { return slices.Contains(m.fields, field) }

// kinds lists the mechanisms in the order of the documentation.
var kinds = []Kind{Gaussian, SubsampledGaussian, GNMax, ConfidentGNMax, LNMax, Laplace, Exponential}

// Kinds returns the mechanisms that an [Event] can name.
func Kinds() []Kind { return slices.Clone(kinds) }

// Fields returns the fields, as in JSON, of an event of the kind: all parameters, and asked if an event may be asked
// more often than answered. Others have a count. It is nil for an unknown kind.
func (k Kind) Fields() []string { return slices.Clone(mechanisms[k].fields) }

var mechanisms = map[Kind]mechanism{
	// Gaussian noise N(0, sigma²) on a value of L2 sensitivity s.
	//
	// Why this is private: the outputs on both neighbours are Gaussians of equal width whose centres are at most s
	// apart, so distinguishing them is a test between N(0, 1) and N(s/sigma, 1). That is mu = s/sigma Gaussian DP
	// (Dong, Roth, Su 2019, Theorem 2.7) and RDP alpha s²/(2 sigma²) (Mironov 2017, Proposition 7).
	Gaussian: gaussianType([]string{"sigma", "sensitivity"}, func(e Event) float64 {
		return float64(e.Count) * squaredCost(e.Sensitivity/e.Sigma)
	}),

	// Gaussian noise on the sum over a Poisson sample: every unit takes part independently with probability rate, and
	// adds at most 1 (in L2, in units of the sensitivity) to the sum; the noise is N(0, noise_multiplier²).
	//
	// Why this is private: most of the time the unit is not in the sample, and the sum does not show whether it
	// is. The cost is that of a mixture of two Gaussians against one (Mironov, Talwar, Zhang 2019, Theorem 4). It
	// is a cost for adding or removing a unit; what may take part, with its rate, must not depend on the data, and
	// the size of the sample stays secret. As Gaussian DP it counts as if every unit took part: the trade-off
	// function of the sampled release is nowhere below that one, and no smaller mu holds (Dong, Roth, Su 2019,
	// section 4).
	SubsampledGaussian: {
		fields: []string{"rate", "noise_multiplier"},
		rdp: func(e Event, alpha float64) float64 {
			return float64(e.Count) * subsampledCurves.of(divergence{e.Rate, e.NoiseMultiplier, alpha}, func() float64 {
				return subsampledRDP(e.Rate, e.NoiseMultiplier, alpha)
			})
		},
		muSquared: func(e Event) float64 {
			return float64(e.Count) * squaredCost(1/e.NoiseMultiplier)
		},
	},

	// GNMax: N(0, sigma²) on every bin of a histogram of votes, then the
	// largest bin or all of them.
	//
	// Why this is private: a unit moves one vote, so that two bins change by 1
	// and the histogram by sqrt 2 in L2: mu² = 2/sigma², RDP alpha/sigma²
	// (Papernot et al. 2018, Proposition 8). The bound is that of the whole
	// noisy histogram; choosing its largest bin only forgets.
	GNMax: gaussianType([]string{"sigma"}, func(e Event) float64 {
		return float64(e.Count) * 2 * squaredCost(1/e.Sigma)
	}),

	// Confident-GNMax: is the largest count plus N(0, sigma1²) at least the
	// threshold? If so, GNMax with fresh noise sigma2.
	//
	// Why this is private: one moved vote changes the largest count by at most
	// 1, so the test is a Gaussian release with mu² = 1/sigma1² whatever its
	// outcome, RDP alpha/(2 sigma1²) (Mironov 2017, Proposition 7); an answer
	// adds GNMax's alpha/sigma2² (Papernot et al. 2018, Algorithm 1 and
	// Proposition 8). Which queries were answered is part of the release, so
	// the number of answers may be charged.
	ConfidentGNMax: gaussianType([]string{"threshold", "sigma1", "sigma2", "asked"}, func(e Event) float64 {
		return float64(e.Asked)*squaredCost(1/e.Sigma1) + float64(e.Answered)*2*squaredCost(1/e.Sigma2)
	}),

	// LNMax: Laplace noise of scale 1/lambda on every bin, then the largest bin
	// or all of them.
	//
	// Why this is private: a unit moves one vote, so two bins change by 1 each,
	// and each of them is a (lambda, 0)-DP release with noise of its own. Two
	// such releases are (2 lambda, 0)-DP (Papernot et al. 2017, section 3;
	// Dwork and Roth 2014, Theorem 3.6 and Corollary 3.15), and their Rényi
	// divergence is twice that of one, which is less than that of a single
	// 2 lambda release.
	LNMax: {
		fields:    []string{"lambda"},
		rdp:       func(e Event, alpha float64) float64 { return 2 * float64(e.Count) * pureRDP(e.Lambda, alpha) },
		muSquared: func(e Event) float64 { return 2 * float64(e.Count) * squaredCost(pureMu(e.Lambda)) },
		pure:      func(e Event) float64 { return 2 * float64(e.Count) * e.Lambda },
	},

	// Laplace noise of scale s/epsilon on a value of L1 sensitivity s.
	//
	// Why this is private: the noise's density falls by at most exp(epsilon) over the distance s (Dwork and Roth
	// 2014, Theorem 3.6).
	//
	// All accountants treat it as randomized response, the worst case of (epsilon, 0)-DP (see pureRDP, pureMu and
	// responsePair). So this kind also covers vectors and any other (epsilon, 0)-DP noise, such as norm-Gamma
	// noise.
	Laplace: {
		fields:    []string{"epsilon"},
		rdp:       func(e Event, alpha float64) float64 { return float64(e.Count) * pureRDP(e.Epsilon, alpha) },
		muSquared: func(e Event) float64 { return float64(e.Count) * squaredCost(pureMu(e.Epsilon)) },
		pure:      func(e Event) float64 { return float64(e.Count) * e.Epsilon },
	},

	// The exponential mechanism: chooses r with probability proportional to
	// exp(epsilon u(r) / (2 s)) where scores u have sensitivity s.
	//
	// Why this is private: weights and their sum each change by at most
	// exp(epsilon/2) (Dwork and Roth 2014, Theorem 3.10). Its privacy loss
	// moves in a range of width epsilon only (Durfee and Rogers 2019), which
	// gives RDP alpha epsilon²/8 (Cesar and Rogers 2021), for large alpha less
	// by pure DP, and the Gaussian DP of rangeMu.
	Exponential: {
		fields: []string{"epsilon"},
		rdp: func(e Event, alpha float64) float64 {
			return float64(e.Count) * min(alpha*squaredCost(e.Epsilon)/8, pureRDP(e.Epsilon, alpha))
		},
		muSquared: func(e Event) float64 { return float64(e.Count) * squaredCost(rangeMu(e.Epsilon)) },
		pure:      func(e Event) float64 { return float64(e.Count) * e.Epsilon },
	},
}

// gaussianType is a mechanism that costs as much as Gaussian noise alone. A mu-GDP Gaussian release has RDP alpha mu²/2
// at every order, so one number describes it.
func gaussianType(fields []string, muSquared func(Event) float64) mechanism {
	return mechanism{
		fields:    fields,
		rdp:       func(e Event, alpha float64) float64 { return alpha * muSquared(e) / 2 },
		muSquared: muSquared,
		gaussian:  true,
	}
}

// RDP returns a bound on the Rényi divergence of order alpha between the
// event's outputs on neighbouring datasets, in nats. Alpha is above 1.
func (e Event) RDP(alpha float64) (float64, error) {
	if err := e.Validate(); err != nil {
		return 0, err
	}
	if !(alpha > 1) || !finite(alpha) {
		return 0, FieldErrorf("alpha", "is %v; an order must be a finite number above 1", alpha)
	}
	cost := mechanisms[e.Kind].rdp(e.PerUnit(), alpha)
	if math.IsNaN(cost) {
		return 0, fmt.Errorf("%s event: divergence of order %v is not a number", e.Kind, alpha)
	}
	return cost, nil
}

func square(x float64) float64 { return x * x }

// leastCost is the smallest cost of an event. Squares and divergences that would underflow are rounded up to it, so
// that every event costs something. It is far enough above the smallest float64 to exceed everything that is rounded up
// to it.
const leastCost = 1e-300

// squaredCost is the square of a privacy parameter, from above.
func squaredCost(x float64) float64 { return max(leastCost, x*x) }
