package ratio

import (
	"fmt"
	"math"
)

// Problem is the public part of a fit.
type Problem struct {
	// Synthetic holds the vectors of the synthetic records, shape [m, Width], as
	// [Features.At] makes them.
	Synthetic []float64
	Width     int
	// Clip is the L2 norm that no record's vector exceeds.
	Clip float64
	// Lambda is the weight of the penalty, above zero.
	Lambda float64
	// Records is n, the public constant by which sums over real records are divided. Only the scale of the weights
	// needs it to be the true number.
	Records float64
	// Rounding bounds the L2 distance between the computed mean of the units' gradients and the exact one, as in
	// [Steps.Rounding]. Zero for exact sums.
	Rounding float64
	// Tolerance is Lambda times the largest distance from the minimizer, rounding included. It is part of the
	// sensitivity. Zero means [Problem.DefaultTolerance].
	Tolerance float64
}

// mostCurved bounds Clip²/Lambda, and so the number of passes of a fit: about 7.6 times its square root.
const mostCurved = 1 << 13

// LeastLambda is the smallest lambda for features of this length; a problem may need a larger one.
func LeastLambda(clip float64) float64 { return clip * clip / mostCurved }

// Validate reports which number is unusable, as an [ErrSpec].
func (p Problem) Validate() error {
	refuse := func(format string, args ...any) error {
		return fmt.Errorf("fit: %w: "+format, append([]any{ErrSpec}, args...)...)
	}
	positive := func(x float64) bool { return x > 0 && !math.IsInf(x, 0) }
	switch {
	case p.Width < 1:
		return refuse("width is %d; it must be 1 or more", p.Width)
	case len(p.Synthetic) == 0 || len(p.Synthetic)%p.Width != 0:
		return refuse("%d numbers of synthetic records for %d features; give at least one record", len(p.Synthetic),
			p.Width)
	case !(p.Clip >= minClip && p.Clip <= maxClip):
		return refuse("clip is %v; it must lie between 2^-100 and 2^100", p.Clip)
	case !positive(p.Lambda):
		return refuse("lambda is %v; it must be a finite number above zero", p.Lambda)
	case !positive(p.Records):
		return refuse("records are %v; give their number, or a public estimate", p.Records)
	case !(p.Rounding >= 0) || math.IsInf(p.Rounding, 0):
		return refuse("rounding is %v; it must be a finite number, zero or more", p.Rounding)
	case p.Lambda < LeastLambda(p.Clip):
		return refuse("lambda is %v; with features of length %v it must be at least %v; use a larger lambda, a "+
			"smaller clip, or dp-mlp", p.Lambda, p.Clip, LeastLambda(p.Clip))
	case p.bent() > mostBent:
		return refuse("sums in steps of %v are too coarse for lambda %v; use finer steps or a larger lambda",
			p.Rounding, p.Lambda)
	case p.Tolerance != 0 && !(p.Tolerance >= p.least() && !math.IsInf(p.Tolerance, 0)):
		return refuse("tolerance is %v; rounding allows %v and more", p.Tolerance, p.least())
	}
	norm := p.Clip * (1 + 0x1p-40)
	for i := 0; i < len(p.Synthetic); i += p.Width {
		if x := p.Synthetic[i : i+p.Width]; !(dot(x, x) <= norm*norm) {
			return refuse("synthetic record %d is longer than clip %v, or not finite", i/p.Width, p.Clip)
		}
	}
	return nil
}

// least is the smallest allowed tolerance. The distance by which rounding moves the minimizer is a part of it.
func (p Problem) least() float64 { return 8 * p.inexact() }

// inexact bounds, in L2 and at all iterates, the error of the computed gradient of J: the rounding of sums, and
// what float64 may lose over d terms in a score and over chunk + m/chunk terms in a sum.
func (p Problem) inexact() float64 {
	terms := 2*p.Width + chunk + len(p.Synthetic)/p.Width/chunk + 16
	lost := 0x1p-53 * float64(terms) * p.Clip * (1 + p.farthest(p.Lambda) + 1)
	return mostReal*p.Rounding + (mostReal+1)*lost
}

// mostBent is the largest allowed error of Hessians, relative to lambda.
const mostBent = 1.0 / 8

// bent bounds the error of computed Hessians of J in the spectral norm, relative to lambda. A node that has units
// rounds each entry once, by half a step of Clip Rounding/(2 sqrt d), and float64 loses less than 2^-36 of Clip²
// in an entry.
func (p Problem) bent() float64 {
	d := float64(p.Width)
	return (mostReal*math.Sqrt(d)*p.Clip*p.Rounding/4 + allWeight*d*p.Clip*p.Clip*0x1p-36) / p.Lambda
}

// DefaultTolerance is Clip/(1000 n), so that inexact fitting adds 0.2% to the sensitivity, or more if rounding
// requires it.
func (p Problem) DefaultTolerance() float64 {
	return max(p.Clip/(1000*p.Records), p.least())
}

func (p Problem) tolerance() float64 {
	if p.Tolerance == 0 {
		return p.DefaultTolerance()
	}
	return p.Tolerance
}
