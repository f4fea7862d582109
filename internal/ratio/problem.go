package ratio

import (
	"fmt"
	"math"
)

// Problem is what of a fit is public.
type Problem struct {
	// Synthetic holds the vectors of the synthetic records, shape [m, Width], as
	// [Features.At] makes them.
	Synthetic []float64
	Width     int
	// Clip is the L2 norm that no vector of a record passes.
	Clip float64
	// Lambda is the weight of the penalty, above zero.
	Lambda float64
	// Records is n, by which the sums over real records are divided: a public
	// constant. It need not be their true number, but for the weights to be right.
	Records float64
	// Rounding is how far, in L2, the sum of gradients divided by Records may be
	// from the exact one: [Steps.Rounding] times the largest number of units there
	// can be, divided by Records. Zero for sums that are exact.
	Rounding float64
	// Tolerance is the norm of the gradient of J that is small enough, rounding
	// included. It is a part of the sensitivity. Zero for [Problem.DefaultTolerance].
	Tolerance float64
	// Iterations bounds the round trips; zero for 200. Some 6 to 10 are usual.
	Iterations int
}

const defaultIterations = 200

// Validate says which number cannot be used, as an [ErrSpec].
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
		return refuse("records are %v; give their number, or a public guess at it", p.Records)
	case !(p.Rounding >= 0) || math.IsInf(p.Rounding, 0):
		return refuse("rounding is %v; it must be a finite number, zero or more", p.Rounding)
	case p.Iterations < 0:
		return refuse("iterations are %d; give 0 for %d", p.Iterations, defaultIterations)
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

// least is the smallest tolerance there may be: where the exact gradient is zero, the
// computed one may still be Rounding. At the minimizer |beta| <= sqrt(2 J(0)/Lambda),
// and J(0) is log(2) (1 + N/n), below 8 for up to 10 n units.
func (p Problem) least() float64 {
	return 8 * (p.Rounding + p.lost(4/math.Sqrt(p.Lambda)))
}

// lost is what float64 may lose of the gradient where beta has that length: over d terms
// in a score, and chunk + m/chunk in a sum.
func (p Problem) lost(length float64) float64 {
	terms := 2*p.Width + chunk + len(p.Synthetic)/p.Width/chunk + 16
	return 0x1p-53 * float64(terms) * p.Clip * (1 + p.Clip*length)
}

// DefaultTolerance is Clip/(1000 n), with which inexact fitting adds 0.2% to the
// sensitivity, or more where rounding asks for it.
func (p Problem) DefaultTolerance() float64 {
	return max(p.Clip/(1000*p.Records), p.least())
}

func (p Problem) tolerance() float64 {
	if p.Tolerance == 0 {
		return p.DefaultTolerance()
	}
	return p.Tolerance
}

func (p Problem) iterations() int {
	if p.Iterations == 0 {
		return defaultIterations
	}
	return p.Iterations
}
