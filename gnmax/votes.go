package gnmax

import (
	"fmt"
	"math"

	"github.com/conclave-dp/conclave/internal/privacy"
)

// GNMaxMechanism is GNMax: Gaussian noise on every count, then the largest
// (Papernot et al. 2018, section 4.1).
//
// Why this is private: a unit moves one vote, so that two counts change by 1.
// Each count's noise makes its change no easier to see than 1/sigma-GDP (see
// the package's documentation), two independent ones compose to
// sqrt(2)/sigma-GDP, and that covers the whole noisy histogram. The winner is
// computed from it.
type GNMaxMechanism struct {
	sigma Sigma
	whole bool
}

// NewGNMax makes a GNMax with noise sigma per count, at least
// [privacy.MinSigma]; whole releases all noisy counts for the same price.
func NewGNMax(sigma float64, whole bool) (*GNMaxMechanism, error) {
	s, err := NewSigma(sigma)
	if err != nil {
		return nil, fmt.Errorf("gnmax: %w", err)
	}
	return &GNMaxMechanism{sigma: s, whole: whole}, nil
}

// Kind is [privacy.GNMax].
func (m *GNMaxMechanism) Kind() privacy.Kind { return privacy.GNMax }

// Answer always answers.
func (m *GNMaxMechanism) Answer(src *Source, counts []int64) (Answer, error) {
	if err := checkHistogram(counts); err != nil {
		return Answer{}, err
	}
	return noisyAnswer(src, counts, m.whole, func(dst []int64) error { return src.DiscreteGaussians(dst, m.sigma) })
}

// Worst is the same as the cost: every query is answered.
func (m *GNMaxMechanism) Worst(queries int64) []privacy.Event { return m.Cost(queries, queries) }

// Cost charges every query asked; nil for none.
func (m *GNMaxMechanism) Cost(asked, _ int64) []privacy.Event {
	if asked == 0 {
		return nil
	}
	return []privacy.Event{{Kind: privacy.GNMax, Sigma: m.sigma.Float(), Count: asked}}
}

// ConfidentMechanism is Confident-GNMax: it answers only where the largest count
// with noise sigma1 reaches a threshold, then with fresh noise sigma2 (Papernot
// et al. 2018, Algorithm 1).
//
// Why this is private: one moved vote changes the largest count by at most 1,
// so the test is 1/sigma1-GDP, and its outcome is part of the release. An
// answer is a GNMax with noise of its own; it never reuses the test's.
type ConfidentMechanism struct {
	threshold float64
	needed    int64 // the smallest whole number that is not below threshold
	sigma1    Sigma
	answer    GNMaxMechanism
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
		threshold: threshold,
		needed:    int64(math.Ceil(threshold)), // counts and noise are whole
		sigma1:    s1,
		answer:    GNMaxMechanism{sigma: s2, whole: whole},
	}, nil
}

// Kind is [privacy.ConfidentGNMax].
func (m *ConfidentMechanism) Kind() privacy.Kind { return privacy.ConfidentGNMax }

// Answer tests first.
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

// Worst is that all queries pass the test.
func (m *ConfidentMechanism) Worst(queries int64) []privacy.Event { return m.Cost(queries, queries) }

// Cost charges the test for every query asked and the answer for those answered;
// nil when none was asked.
func (m *ConfidentMechanism) Cost(asked, answered int64) []privacy.Event {
	if asked == 0 {
		return nil
	}
	return []privacy.Event{{
		Kind: privacy.ConfidentGNMax, Threshold: m.threshold,
		Sigma1: m.sigma1.Float(), Sigma2: m.answer.sigma.Float(),
		Asked: asked, Answered: answered,
	}}
}

// LNMaxMechanism is LNMax: Laplace noise of scale 1/lambda on every count, then
// the largest (Papernot et al. 2017, section 2.1; PATE-GAN, section 3).
//
// Why this is private: a unit moves one vote, so that two counts change by 1.
// The discrete Laplace probabilities of neighbouring integers have the ratio
// exp(lambda) or its inverse, so each change is (lambda, 0)-DP, with independent
// noise (2 lambda, 0)-DP for the whole noisy histogram.
type LNMaxMechanism struct {
	lambda Lambda
	whole  bool
}

// NewLNMax makes an LNMax with inverse scale lambda; whole as in [NewGNMax].
func NewLNMax(lambda float64, whole bool) (*LNMaxMechanism, error) {
	l, err := NewLambda(lambda)
	if err != nil {
		return nil, fmt.Errorf("lnmax: %w", err)
	}
	return &LNMaxMechanism{lambda: l, whole: whole}, nil
}

// Kind is [privacy.LNMax].
func (m *LNMaxMechanism) Kind() privacy.Kind { return privacy.LNMax }

// Answer always answers.
func (m *LNMaxMechanism) Answer(src *Source, counts []int64) (Answer, error) {
	if err := checkHistogram(counts); err != nil {
		return Answer{}, err
	}
	return noisyAnswer(src, counts, m.whole, func(dst []int64) error {
		return src.DiscreteLaplaces(dst, m.lambda.Scale())
	})
}

// Worst is the same as the cost: every query is answered.
func (m *LNMaxMechanism) Worst(queries int64) []privacy.Event { return m.Cost(queries, queries) }

// Cost charges every query asked; nil for none.
func (m *LNMaxMechanism) Cost(asked, _ int64) []privacy.Event {
	if asked == 0 {
		return nil
	}
	return []privacy.Event{{Kind: privacy.LNMax, Lambda: m.lambda.Float(), Count: asked}}
}
