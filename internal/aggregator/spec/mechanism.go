package spec

import (
	"fmt"

	"github.com/conclave-dp/conclave/gnmax"
	"github.com/conclave-dp/conclave/internal/privacy"
)

const (
	// MinBound and MaxBound bound the L2 norm of a privacy unit's vector in whole steps: rounding stays small
	// relative to the values, and the noise can be drawn.
	MinBound = 1 << 8
	MaxBound = 1 << 20
)

// VoteMechanism makes the mechanism that answers votes from a plan entry.
func VoteMechanism(p privacy.Planned) (gnmax.Mechanism, error) {
	m, whole := p.Mechanism, p.Variant == privacy.Histogram
	switch m.Kind {
	case privacy.LNMax:
		return gnmax.NewLNMax(m.Lambda, whole)
	case privacy.GNMax:
		return gnmax.NewGNMax(m.Sigma, whole)
	case privacy.ConfidentGNMax:
		return gnmax.NewConfident(m.Threshold, m.Sigma1, m.Sigma2, whole)
	}
	return nil, OtherMechanism(p, privacy.LNMax, privacy.GNMax, privacy.ConfidentGNMax)
}

// GaussianSum makes the noise of a sum from a plan entry. At each of its sites, one privacy unit moves the sum's L2
// norm by at most bound, in whole steps. Sums over samples are charged as such: see [gnmax.GaussianSum].
func GaussianSum(p privacy.Planned, bound int64) (*gnmax.GaussianSum, error) {
	switch m := p.Mechanism; {
	case m.Kind == privacy.Gaussian:
		return gnmax.NewGaussianSum(bound, m.Sigma)
	case m.Kind == privacy.SubsampledGaussian:
		return gnmax.NewGaussianSum(bound, m.NoiseMultiplier)
	}
	return nil, OtherMechanism(p, privacy.Gaussian, privacy.SubsampledGaussian)
}

// OtherMechanism is the error of a plan whose mechanism does not suit the kind of question.
func OtherMechanism(p privacy.Planned, want ...privacy.Kind) error {
	return fmt.Errorf("the plan answers %s with %s; use one of %v", p.Kind, p.Mechanism.Kind, want)
}

// CheckLaplace checks, with a draw that it discards, whether counts in a unit can be released for epsilon. An error
// at the release would come too late.
func CheckLaplace(unit int64, epsilon float64) error {
	_, err := gnmax.LaplaceCounts(gnmax.NewSource(), []int64{0}, unit, epsilon)
	return err
}
