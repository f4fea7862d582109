package gnmax

import (
	"fmt"
	"math"
)

// GNMaxMechanism is GNMax: Gaussian noise on every count, then the largest
// (Papernot et al. 2018, section 4.1).
//
// Why this is private: a unit moves one vote, so two counts change by 1. With its noise each count is 1/sigma-GDP
// (see the package's documentation), and two independent ones compose to sqrt(2)/sigma-GDP. That covers the whole
// noisy histogram. The winner is computed from it. Charge {kind: gnmax, sigma}.
type GNMaxMechanism struct {
	sigma Sigma
	whole bool
}

// NewGNMax makes a GNMax with noise sigma per count, at least [privacy.MinSigma]. If whole is set it also releases all
// noisy counts, for the same price.
func NewGNMax(sigma float64, whole bool) (*GNMaxMechanism, error) {
	s, err := NewSigma(sigma)
	if err != nil {
		return nil, fmt.Errorf("gnmax: %w", err)
	}
	return &GNMaxMechanism{sigma: s, whole: whole}, nil
}

// Answer always answers.
func (m *GNMaxMechanism) Answer(src *Source, counts []int64) (Answer, error) {
	if err := checkHistogram(counts); err != nil {
		return Answer{}, err
	}
	return noisyAnswer(src, counts, m.whole, func(dst []int64) error { return src.DiscreteGaussians(dst, m.sigma) })
}

// ConfidentMechanism is Confident-GNMax: it answers only if the largest count with noise sigma1 reaches a
// threshold, and then with fresh noise sigma2 (Papernot et al. 2018, Algorithm 1).
//
// Why this is private: one moved vote changes the largest count by at most 1,
// so the test is 1/sigma1-GDP, and its outcome is part of the release. An
// answer is a GNMax with noise of its own; it never reuses the test's. Charge {kind:
// confident-gnmax, threshold, sigma1, sigma2}: the test for every query asked, the answer
// for those answered.
type ConfidentMechanism struct {
	needed int64 // the smallest whole number that is not below the threshold
	sigma1 Sigma
	answer GNMaxMechanism
}

// NewConfident makes a Confident-GNMax. The threshold is a number of votes,
// zero or more; whole as in [NewGNMax].
func NewConfident(threshold, sigma1, sigma2 float64, whole bool) (*ConfidentMechanism, error) {
	if !(threshold >= 0 && threshold <= maxCount) {
		return nil, parameterErrorf("confident-gnmax: threshold is %v; it must be a number of votes, zero or more",
			threshold)
	}
	s1, err := NewSigma(sigma1)
	if err != nil {
		return nil, fmt.Errorf("confident-gnmax: threshold test: %w", err)
	}
	s2, err := NewSigma(sigma2)
	if err != nil {
		return nil, fmt.Errorf("confident-gnmax: answer: %w", err)
	}
	return &ConfidentMechanism{
		needed: int64(math.Ceil(threshold)), // counts and noise are whole
		sigma1: s1,
		answer: GNMaxMechanism{sigma: s2, whole: whole},
	}, nil
}

// Answer tests the threshold first.
func (m *ConfidentMechanism) Answer(src *Source, counts []int64) (Answer, error) {
	if err := checkHistogram(counts); err != nil {
		return Answer{}, err
	}
	largest := counts[0]
	for _, c := range counts[1:] {
		largest = max(largest, c)
	}
	noise, err := src.DiscreteGaussian(m.sigma1)
	if err != nil {
		return Answer{}, err
	}
	if largest+noise < m.needed {
		return Answer{Winner: -1}, nil
	}
	return m.answer.Answer(src, counts)
}

// LNMaxMechanism is LNMax: Laplace noise of scale 1/lambda on every count, then
// the largest (Papernot et al. 2017, section 2.1; PATE-GAN, section 3).
//
// Why this is private: a unit moves one vote, so two counts change by 1. The discrete Laplace probabilities of
// neighbouring integers have the ratio exp(lambda) or its inverse, so each change is (lambda, 0)-DP, with
// independent noise (2 lambda, 0)-DP for the whole noisy histogram. Charge {kind: lnmax, lambda}.
type LNMaxMechanism struct {
	scale Scale // 1/lambda, rounded up
	whole bool
}

// NewLNMax makes an LNMax with inverse scale lambda, a finite number from 2^-38 on; whole
// as in [NewGNMax].
func NewLNMax(lambda float64, whole bool) (*LNMaxMechanism, error) {
	scale, err := scaleFor(1, lambda)
	if err != nil {
		return nil, fmt.Errorf("lnmax: lambda: %w", err)
	}
	return &LNMaxMechanism{scale: scale, whole: whole}, nil
}

// Answer always answers.
func (m *LNMaxMechanism) Answer(src *Source, counts []int64) (Answer, error) {
	if err := checkHistogram(counts); err != nil {
		return Answer{}, err
	}
	return noisyAnswer(src, counts, m.whole, func(dst []int64) error { return src.DiscreteLaplaces(dst, m.scale) })
}
