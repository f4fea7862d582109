package privacy

import (
	"fmt"
	"math"
	"slices"
)

// SmoothRelease is a plan to publish a data-dependent RDP of GNMax queries. This
// package draws no noise: the caller releases
//
//	Value + N(0, NoiseStd²)     and     LogNoiseStd + N(0, LogStd²),
//
// once each, with noise of their own, and gives both to [SmoothRelease.Epsilon].
// Value, NoiseStd and LogNoiseStd are private and leave the aggregator with that
// noise only. The other fields are public.
//
// A sampler over whole numbers rounds to a grid: Value to steps of GridStep,
// LogNoiseStd to steps of LogStd/1024, then adds a discrete Gaussian of so many
// steps. Rounding moves neighbours up to one step further apart, which
// [SmoothReleaseRDP] counts. With 1024 steps and more to a standard deviation the
// divergences of discrete and continuous Gaussians agree to all digits of a
// float64 (Poisson summation: they differ by factors of 1 + exp(-2 pi² steps²)).
type SmoothRelease struct {
	Order   float64 // Rényi order of Value
	Beta    float64 // smoothness
	Noise   float64 // NoiseStd over the smooth sensitivity
	LogStd  float64 // standard deviation of the noise on LogNoiseStd
	Queries int64
	// GridStep is a power of two of which every histogram of so many votes has at
	// least 1024 to its NoiseStd; 0 where float64 holds none.
	GridStep float64

	Value       float64 // private: the sum of the queries' divergences, in nats
	NoiseStd    float64 // private: in nats
	LogNoiseStd float64 // private: log NoiseStd
}

// smoothSteps is the least number of grid steps to a standard deviation.
const smoothSteps = 1024

// PlanSmoothRelease works out the release of the data-dependent RDP, at one
// public order, of GNMax queries with noise sigma per bin, one histogram per
// query and all with the same number of votes.
//
// Beta is the smoothness of the sensitivity, noise the ratio of the released
// figure's noise to it, logStd the noise on the logarithm of that noise; all are
// public and chosen without looking at votes. Order must be below 1/(2 beta).
//
// Why it is private: one privacy unit moves at most one vote of each histogram,
// so the sum of the queries' smooth sensitivities is a smooth sensitivity of the
// sum (Papernot et al. 2018, section B.3; Nissim, Raskhodnikova, Smith 2007,
// Lemma 2.3). See [SmoothReleaseRDP] for what the release costs.
//
// Errors wrap a [*FieldError]; besides those of [GNMaxSmoothSensitivity], for no
// histograms and for histograms that differ in the number of votes or classes.
func PlanSmoothRelease(votes [][]int64, sigma, order, beta, noise, logStd float64) (SmoothRelease, error) {
	if _, err := SmoothReleaseRDP(beta, noise, logStd, order); err != nil {
		return SmoothRelease{}, err
	}
	if len(votes) == 0 {
		return SmoothRelease{}, FieldErrorf("votes", "has no histogram; give one per query")
	}
	c, total, err := checkedCurve(votes[0], sigma, order)
	if err != nil {
		return SmoothRelease{}, err
	}
	plan := SmoothRelease{Order: order, Beta: beta, Noise: noise, LogStd: logStd, Queries: int64(len(votes))}
	sensitivity := 0.0
	type figures struct{ value, smooth float64 }
	known := make(map[string]figures) // classes are alike, so the sorted counts are the key
	for i, v := range votes {
		n, err := checkVotes(v)
		if err == nil && (n != total || len(v) != len(votes[0])) {
			err = FieldErrorf("votes", "differs from the first histogram in votes or classes; release such queries apart")
		}
		if err != nil {
			return SmoothRelease{}, fmt.Errorf("query %d: %w", i+1, err)
		}
		key := fmt.Sprint(slices.Sorted(slices.Values(v)))
		f, ok := known[key]
		if !ok {
			f = figures{c.value(gnmaxLogQ(v, sigma)), c.smooth(v, beta)}
			known[key] = f
		}
		plan.Value += f.value
		sensitivity += f.smooth
	}
	plan.NoiseStd = noise * sensitivity
	plan.LogNoiseStd = math.Log(plan.NoiseStd)
	// No histogram is further than total moves from the plateau.
	least := noise * float64(plan.Queries) * c.plateau * math.Exp(-beta*float64(total+1))
	if _, exponent := math.Frexp(least / smoothSteps); positive(least) {
		plan.GridStep = math.Ldexp(0.5, exponent)
	}
	if !positive(plan.NoiseStd) || !finite(plan.Value) {
		return SmoothRelease{}, FieldErrorf("noise", "is %v, with which the release's noise is no number that float64 holds", noise)
	}
	return plan, nil
}

// SmoothReleaseRDP returns what the two releases of [SmoothRelease] cost
// together, as a Rényi divergence of order alpha in nats. It needs alpha < 1/(2
// beta), as in Papernot et al. 2018, Theorem 23; else the error is a
// [*FieldError].
//
// Why it is private: the figure of neighbouring datasets is drawn from Gaussians
// whose standard deviations differ by a factor e^t, |t| <= beta, and whose centres
// lie at most the smaller one times r = 1/noise + 1/1024 apart, rounding included.
// Their divergence is known (van Erven and Harremoës 2014, equation 10); at the
// worst t, which is beta, it is
//
//	alpha r² / (2 v) - beta - log(v) / (2 (alpha-1)),  v = 1 - (alpha-1)(e^(2 beta) - 1).
//
// The logarithm of the noise changes by at most beta and gets Gaussian noise
// logStd: alpha (beta/logStd + 1/1024)²/2.
//
// This is not the formula that is published with Theorem 23, alpha e^(2 beta)/noise²
// + (alpha beta - log(1 - 2 alpha beta)/2)/(alpha-1): that one is below the true
// divergence where alpha beta comes near 1/2 and noise is small, since 1/v is
// missing from its first term.
func SmoothReleaseRDP(beta, noise, logStd, alpha float64) (float64, error) {
	for _, f := range []struct {
		name  string
		value float64
	}{{"beta", beta}, {"noise", noise}, {"log std", logStd}} {
		if err := checkPositive(f.name, f.value); err != nil {
			return 0, err
		}
	}
	if err := checkOrder("order", alpha); err != nil {
		return 0, err
	}
	if !(2*alpha*beta < 1) {
		return 0, FieldErrorf("order", "is %v; with beta %v it must be below 1/(2 beta)", alpha, beta)
	}
	figure := scaledGaussianRDP(beta, 1/noise+1.0/smoothSteps, alpha)
	return checkFigure("noise", figure+alpha*square(beta/logStd+1.0/smoothSteps)/2)
}

// scaledGaussianRDP is the divergence of order alpha of N(apart s, s0²) from
// N(0, s1²) with s0 = e^t s1 and s the smaller of both.
//
// Why no -t' in [-t, 0] has more than t: the first part is at most alpha apart²/2
// there. The rest is 0 at 0, and its values at t and -t grow apart by 1/a + 1/b - 2
// with a, b = alpha e^(+-2t) - (alpha-1). As (a+alpha-1)(b+alpha-1) = alpha², the sum
// a+b is at least 2 and (a+b)/(ab) at least 2.
func scaledGaussianRDP(t, apart, alpha float64) float64 {
	excess := (alpha - 1) * math.Expm1(2*t)
	return alpha*square(math.Exp(min(t, 0))*apart)/(2*(1-excess)) - t - math.Log1p(-excess)/(2*(alpha-1))
}

// Epsilon turns the two released numbers into an epsilon at delta for the
// queries and the release together, at the plan's order: divergences add up
// (Mironov 2017, Proposition 1) and turn into epsilon (Canonne, Kamath, Steinke
// 2020, Proposition 12). It uses no private
// field, so everyone who holds the released numbers and the public fields can
// compute it.
//
// The released figure may by chance lie below the true one. Epsilon therefore adds
// as much as the noise falls short of with probability missed only (over both
// noises, half of it each), and the claim reads: with probability 1 - missed over
// the release, the dataset that cast the votes has this epsilon at delta against
// each of its neighbours. That remains weaker than differential privacy.
func (p SmoothRelease) Epsilon(released, releasedLogStd, missed, delta float64) (float64, error) {
	if err := checkDelta(delta); err != nil {
		return 0, err
	}
	if !(missed > 0 && missed < 1) {
		return 0, FieldErrorf("missed", "is %v; it must lie between 0 and 1, both excluded", missed)
	}
	if !finite(released) || !finite(releasedLogStd) {
		return 0, FieldErrorf("released", "is not a finite number; release the figure and the logarithm of its noise")
	}
	cost, err := SmoothReleaseRDP(p.Beta, p.Noise, p.LogStd, p.Order)
	if err != nil {
		return 0, err
	}
	z := normalTailInverse(math.Log(missed / 2))
	upper := max(0, released) + z*math.Exp(releasedLogStd+z*p.LogStd)
	return checkFigure("released", max(0, upper+cost+conversion(p.Order, delta)))
}
