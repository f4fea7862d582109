package gnmax

import (
	"errors"
	"fmt"
	"math"
	"math/big"
)

// ErrSum matches, with errors.Is, the error for a sum that cannot be released. The message contains none of its values.
var ErrSum = errors.New("unusable sum")

// GaussianSum releases a sum of bounded vectors with Gaussian noise. Datasets are neighbours when one privacy unit
// is added or removed; its vector of whole numbers, as [Encode] makes it, has an L2 norm of at most the bound. If
// neighbours replace a unit by another, the sum moves by up to twice the bound: make the mechanism with twice the
// bound.
//
// Why this is private: entry j of the sum changes by an integer d_j and has independent noise, so its change is at
// most d_j/sigma-GDP (see the package's documentation, which proves it for every whole d_j). Independent entries
// compose to sqrt(sum of d_j²)/sigma-GDP (Dong, Roth, Su 2019, Theorem 3.2 and Corollary 3.3), for any number of
// entries. With sigma = multiplier x bound that is 1/multiplier-GDP: charge {kind: gaussian, sigma: multiplier,
// sensitivity: 1}. Concentrated DP of the same size holds too (Canonne, Kamath, Steinke 2020, Theorem 14).
//
// A sum over a Poisson sample contains each privacy unit with probability rate (see [Source.PoissonSample]),
// independent of all others and of earlier releases. It is charged as {kind: subsampled-gaussian, rate,
// noise_multiplier: multiplier}. The sample and its size stay secret. Why the noise is enough for that: fix one
// unit, its vector d and the sample of all others. With the unit the release is (1-rate) P + rate Q, without it P,
// where P is the noise around the others' sum and Q the same moved by d. Distinguishing P from Q is no easier than
// distinguishing N(0, 1) from N(1/multiplier, 1), as above. So one random map takes these two normals to P and Q
// (Blackwell 1953), and their mixture to the mixture. The others' sample has the same distribution on both sides,
// and mixing over it makes distinguishing no easier (hockey-stick divergences are jointly convex).
// Subsampled-gaussian events are accounted for by this pair.
//
// A GaussianSum is immutable and safe for concurrent use.
type GaussianSum struct{ sigma Sigma }

// NewGaussianSum makes a release for vectors of L2 norm at most bound, in whole
// fixed-point steps, with a noise multiplier: the standard deviation of the
// noise on each entry is multiplier x bound, and must lie between
// [privacy.MinSigma] and 2^29.
func NewGaussianSum(bound int64, multiplier float64) (*GaussianSum, error) {
	if bound <= 0 {
		return nil, parameterErrorf("gaussian sum: bound is %d; it must be the L2 norm that one privacy unit adds at "+
			"most, in fixed-point steps, above zero", bound)
	}
	if !(multiplier > 0) || math.IsInf(multiplier, 0) {
		return nil, parameterErrorf("gaussian sum: noise multiplier is %v; it must be a finite number above zero",
			multiplier)
	}
	// The product is exact: rounded down it would be less noise than charged for.
	sigma := new(big.Rat).SetFloat64(multiplier)
	s, err := exactSigma(sigma.Mul(sigma, new(big.Rat).SetInt64(bound)))
	if err != nil {
		return nil, fmt.Errorf("gaussian sum: noise multiplier %v times bound %d: %w", multiplier, bound, err)
	}
	return &GaussianSum{sigma: s}, nil
}

// Sigma is the noise on each entry, in fixed-point steps.
func (m *GaussianSum) Sigma() Sigma { return m.sigma }

// Release returns the sum with noise on every entry, of the same length, in
// fixed-point steps of clip/bound. It neither changes the sum nor knows how many units
// are in it. Entries must lie within 2^61 of zero.
func (m *GaussianSum) Release(src *Source, sum []int64) ([]int64, error) {
	if len(sum) == 0 {
		return nil, fmt.Errorf("%w: it has no entries", ErrSum)
	}
	for i, x := range sum {
		if x < -maxCount || x > maxCount {
			return nil, fmt.Errorf("%w: entry %d is too large; use fewer fixed-point steps", ErrSum, i)
		}
	}
	return addNoise(sum, func(dst []int64) error { return src.DiscreteGaussians(dst, m.sigma) })
}
