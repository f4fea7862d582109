package meaning

import (
	"math"

	"github.com/conclave-dp/conclave/internal/privacy"
)

// HiddenSigmas is how many standard deviations of the noise something must have to stand out of it: normal noise
// passes two in one of twenty cases.
const HiddenSigmas = 2

// Deviation is the standard deviation of one release's noise, as a multiple of the most that one unit adds, at all of
// its sites, to what is released; 0 of mechanisms that select, which add none. Noise that is drawn as a vector has at
// least this one in each direction.
func Deviation(e privacy.Event) float64 {
	e = e.PerUnit()
	switch e.Kind {
	case privacy.Gaussian:
		return e.Sigma / e.Sensitivity
	case privacy.SubsampledGaussian:
		return e.NoiseMultiplier
	case privacy.GNMax:
		return e.Sigma
	case privacy.ConfidentGNMax:
		return e.Sigma2
	case privacy.LNMax:
		return math.Sqrt2 / e.Lambda
	case privacy.Laplace:
		return math.Sqrt2 / e.Epsilon
	}
	return 0
}

// Hidden is the number of units below which what they add together does not stand out of the noise of so many
// releases, also where all of them show the same: HiddenSigmas x deviation / sqrt(releases), rounded up. It is what
// statistical offices call the smallest cell count, as the noise has it. One release is meant where releases is 0.
func Hidden(deviation float64, releases int64) int64 {
	return int64(math.Ceil(HiddenSigmas * deviation / math.Sqrt(float64(max(1, releases)))))
}
