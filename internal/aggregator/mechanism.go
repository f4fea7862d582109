package aggregator

import (
	"fmt"

	"github.com/conclave-dp/conclave/gnmax"
	"github.com/conclave-dp/conclave/internal/privacy"
)

// voteMechanism makes what draws the answers to votes from an entry of a plan.
func voteMechanism(p privacy.Planned) (gnmax.Mechanism, error) {
	m, whole := p.Mechanism, p.Variant == privacy.Histogram
	switch m.Kind {
	case privacy.LNMax:
		return gnmax.NewLNMax(m.Lambda, whole)
	case privacy.GNMax:
		return gnmax.NewGNMax(m.Sigma, whole)
	case privacy.ConfidentGNMax:
		return gnmax.NewConfident(m.Threshold, m.Sigma1, m.Sigma2, whole)
	}
	return nil, otherMechanism(p, privacy.LNMax, privacy.GNMax, privacy.ConfidentGNMax)
}

// gaussianSum makes what draws the noise of a sum whose L2 norm one privacy unit moves by
// at most bound, in whole steps, from an entry of a plan. Sums over samples are charged as
// such: see [gnmax.GaussianSum.SampledCost].
func gaussianSum(p privacy.Planned, bound int64) (*gnmax.GaussianSum, error) {
	switch m := p.Mechanism; {
	case m.Kind == privacy.Gaussian && m.Sensitivity == 1:
		return gnmax.NewGaussianSum(bound, m.Sigma)
	case m.Kind == privacy.SubsampledGaussian:
		return gnmax.NewGaussianSum(bound, m.NoiseMultiplier)
	}
	return nil, otherMechanism(p, privacy.Gaussian, privacy.SubsampledGaussian)
}

func otherMechanism(p privacy.Planned, want ...privacy.Kind) error {
	return fmt.Errorf("the plan answers %s by %s; use one of %v (gaussian with sensitivity 1)", p.Kind, p.Mechanism.Kind, want)
}
