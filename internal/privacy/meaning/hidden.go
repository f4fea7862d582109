package meaning

import (
	"math"

	"github.com/conclave-dp/conclave/internal/privacy"
)

// HiddenSigmas is the number of standard deviations of the noise that a signal must have to stand out. Normal noise
// exceeds two in one of twenty cases.
const HiddenSigmas = 2

// Deviation is the standard deviation of one release's noise, as a multiple of the most that one unit adds to the
// release, at all of its sites. It is 0 for mechanisms that select, which add no noise. Noise that is drawn as a vector
// has at least this deviation in each direction.
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

// Hidden is the smallest number of units whose joint contribution can stand out of the noise of the given number
// of releases, if all of them show the same. It is HiddenSigmas x deviation / sqrt(releases), rounded up.
// Statistical offices call this the smallest cell count. releases of 0 means one release.
func Hidden(deviation float64, releases int64) int64 {
	return int64(math.Ceil(HiddenSigmas * deviation / math.Sqrt(float64(max(1, releases)))))
}
