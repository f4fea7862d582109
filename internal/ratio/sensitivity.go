package ratio

import (
	"fmt"
	"math"
)

// Sensitivity bounds, in L2, how far adding or removing one privacy unit moves the coefficients that [Fit]
// returns, with n unchanged:
//
//	Clip/(n Lambda) + 2 Tolerance/Lambda
//
// Why: let J' be J with one more unit, J' = J + u/n. The unit's loss u is a mean of l(b.x) over its records, so
// its gradient, a mean of (p-1) x with 0 < p < 1, is shorter than Clip. J is Lambda-strongly convex: its gradient
// moves by at least Lambda |b' - b| from b to b'. At the minimizers grad J(b) = 0 and grad J'(b') = 0, hence
//
//	Lambda |b' - b|  <=  |grad J(b') - grad J(b)|  =  |grad u(b')|/n  <  Clip/n
//
// (Chaudhuri, Monteleoni, Sarwate 2011, Corollary 8, which replaces a record and so has 2 for 1). Only the
// curvature of the penalty is used, so real data usually move the minimizer less. A fitted b has |grad J(b)| <=
// Tolerance and is within Tolerance/Lambda of the minimizer, by the same inequality. This counts once for each
// neighbour.
//
// The figure is rounded up. All four numbers are public and must be above zero. The tolerance is that of the fit,
// not its residual. The error is an [ErrSpec].
func Sensitivity(clip, records, lambda, tolerance float64) (float64, error) {
	s := (clip/records + 2*tolerance) / lambda * (1 + 0x1p-48)
	if !(clip > 0 && records > 0 && lambda > 0 && tolerance > 0 && s > 0) || math.IsInf(s, 0) {
		return 0, fmt.Errorf("sensitivity: %w: a clip of %v, %v records, lambda %v and tolerance %v; all must be "+
			"finite and above zero", ErrSpec, clip, records, lambda, tolerance)
	}
	return s, nil
}

// Sensitivity is the sensitivity of [Fit] for this problem, whose tolerance may be the default.
func (p Problem) Sensitivity() (float64, error) {
	if err := p.Validate(); err != nil {
		return 0, err
	}
	return Sensitivity(p.Clip, p.Records, p.Lambda, p.tolerance())
}
