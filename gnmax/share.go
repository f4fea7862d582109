package gnmax

import (
	"fmt"
	"math"
	"math/big"
)

// minShare is the smallest standard deviation of a share, in whole steps.
const minShare = 8

// Share is one party's part of the noise of a sum. Each of several parties adds a share to its message, so that no
// party knows the whole noise: a party that knows some shares still does not know the others. [GaussianSum.Share] makes
// it.
//
// Why this is private: h honest parties each add discrete Gaussian noise of variance parameter v/h, where v is the
// variance parameter that the whole noise needs. The sum of n discrete Gaussians of standard deviation s is the
// discrete Gaussian of variance n s², up to [ShareError] in the logarithm of each probability (Kairouz, Liu,
// Steinke 2021, Theorem 9). At s >= 8 that is below 1e-270 for any number of parties, so no accountant's figure
// changes. Shares of further parties are independent, and are added to a sum that is already private.
type Share struct{ noise Sigma }

// Share returns the part of the noise that each of the given number of honest parties adds, so that their noise alone
// is enough. Further parties add more noise. It fails below 8 steps, where a sum of discrete Gaussians is not close
// enough to a discrete Gaussian; use a finer fixed point then.
func (m *GaussianSum) Share(honest int) (Share, error) {
	if honest < 1 {
		return Share{}, parameterErrorf("a share of noise among %d honest parties; there must be one or more", honest)
	}
	if m.sigma.t == 0 {
		return Share{}, errZeroParameter
	}
	v := m.sigma.variance()
	v.Quo(v, new(big.Rat).SetInt64(int64(honest)))
	if v.Cmp(big.NewRat(minShare*minShare, 1)) < 0 {
		return Share{}, parameterErrorf("noise of %v steps in shares of %d parties: each would be below %d steps; "+
			"use a finer fixed point, or fewer parties", m.sigma.Float(), honest, minShare)
	}
	return Share{sigmaOfVariance(v)}, nil
}

// Draw fills dst with independent draws of the share.
func (s Share) Draw(src *Source, dst []int64) error {
	if err := src.DiscreteGaussians(dst, s.noise); err != nil {
		return fmt.Errorf("draw a share of the noise: %w", err)
	}
	return nil
}

// Parameters name the share exactly: its variance parameter is t w/q.
func (s Share) Parameters() (t, w, q uint64) { return s.noise.t, s.noise.w, s.noise.q }

// Sigma is the share's standard deviation in whole steps.
func (s Share) Sigma() float64 {
	v, _ := s.noise.variance().Float64()
	return math.Sqrt(v)
}

// variance is the variance parameter of the noise, t w/q.
func (s Sigma) variance() *big.Rat {
	v := new(big.Rat).SetFrac(new(big.Int).SetUint64(s.w), new(big.Int).SetUint64(s.q))
	return v.Mul(v, new(big.Rat).SetInt(new(big.Int).SetUint64(s.t)))
}

// ShareError bounds the difference between two logarithms of probabilities: of the sum of n discrete Gaussians of
// standard deviation sigma, in whole steps, and of one discrete Gaussian of their total variance:
//
//	tau = 10 (exp(-2 pi² sigma² 1/2) + ... + exp(-2 pi² sigma² (n-1)/n))
//
// (Kairouz, Liu, Steinke 2021, Theorem 9).
func ShareError(sigma float64, n int) float64 {
	tau := 0.0
	for k := 1; k < n; k++ {
		tau += 10 * math.Exp(-2*math.Pi*math.Pi*sigma*sigma*float64(k)/float64(k+1))
	}
	return tau
}
