package privacy

import (
	"cmp"
	"fmt"
	"math"
)

// MaxOverlap bounds at how many sites one privacy unit may be.
const MaxOverlap = 1000

const overlapRule = "it must be the number of sites at which one privacy unit may be, 2 to 1000, or absent for 1"

func overlaps(m float64) bool { return m >= 2 && m <= MaxOverlap && m == math.Trunc(m) }

// CheckOverlap refuses an impossible number of sites for a privacy unit, with a [*FieldError].
func CheckOverlap(sites int) error {
	if sites < 1 || sites > MaxOverlap {
		return FieldErrorf("overlap", "is %d; use the number of sites at which one privacy unit may be, 1 to %d", sites,
			MaxOverlap)
	}
	return nil
}

// Sites is the number of sites at which one privacy unit may be, 1 or more.
func (b Budget) Sites() int { return cmp.Or(b.Overlap, 1) }

// WithOverlap is the budget if one privacy unit may be at the given number of sites, 1 or more.
func (b Budget) WithOverlap(sites int) Budget {
	b.Overlap = sites
	if sites == 1 {
		b.Overlap = 0
	}
	return b
}

// Event is the event as charged under the budget: for the change of one unit at all of its sites.
func (b Budget) Event(e Event) Event {
	e.Sensitivity = float64(b.Overlap)
	if e.Kind == Gaussian {
		e.Sensitivity = float64(b.Sites())
	}
	return e
}

// CheckPlan refuses a plan with an entry that pays for a different number of sites from the budget's. Only this
// check requires overlap; the error matches [ErrPlan].
func (b Budget) CheckPlan(plan Plan) error {
	for i, p := range plan {
		if want := b.Event(p.Mechanism).Sensitivity; p.Mechanism.Sensitivity != want {
			return fmt.Errorf("%w: entry %d, for %s, pays for a sensitivity of %v, and a privacy unit may be at up to "+
				"%d sites of the dataset; price it for that (overlap: %d)", ErrPlan, i, p.Kind,
				cmp.Or(p.Mechanism.Sensitivity, 1), b.Sites(), b.Sites())
		}
	}
	return nil
}

// PerUnit is an event without overlap that costs at least as much as this event, whose unit is at m = sensitivity
// sites. An event without a sensitivity, and every gaussian one, is returned unchanged.
//
// Why: let D have one unit more than D', at up to m sites. Between them lie m-1 datasets, each with the unit at
// one site more than the one before. In each step one site's records change as if the unit were only there, so the
// value before noise moves by at most the distance s of one site, in the norm of its noise. By the triangle
// inequality it moves by at most m s in total. So:
//
//   - Gaussian noise sigma x s is for the distance m s: the same as noise sigma/m for the distance 1.
//   - Up to m votes change, each from one bin to another. A histogram moves by at most m sqrt 2 in L2, its
//     largest count by m. The counts that rise do so by m in total, and so do those that fall. Each of the two
//     groups is an (m lambda, 0)-DP release with its own noise, like the two bins of one vote with m lambda.
//   - Laplace and norm-Gamma noise of scale s/epsilon is (m epsilon, 0)-DP.
//   - Scores move by m s, so the weights of a selection change by at most exp(m epsilon/2), and the privacy
//     loss stays in a range of width m epsilon.
//   - A Poisson sample of rate q contains the unit at least once with probability p = 1-(1-q)^m, as sites draw
//     independently. Given which other units are in the sample, the release is N = the noise around their sum
//     without the unit, and (1-p) N + p N' with it. N' is a mixture of the noise moved by at most m s.
//     Hockey-stick divergences are jointly convex, so (N(m s), N(0)) dominates (N', N) in both orders, and
//     sampling at rate p keeps that (Zhu, Dong, Wang 2022, Theorem 11).
func (e Event) PerUnit() Event {
	m := e.Sensitivity
	if m == 0 || e.Kind == Gaussian {
		return e
	}
	e.Sensitivity = 0
	e.Sigma, e.Sigma1, e.Sigma2, e.NoiseMultiplier = e.Sigma/m, e.Sigma1/m, e.Sigma2/m, e.NoiseMultiplier/m
	e.Lambda, e.Epsilon = e.Lambda*m, e.Epsilon*m
	if e.Kind == SubsampledGaussian {
		e.Rate = min(1, -math.Expm1(m*math.Log1p(-e.Rate))*(1+1e-15)) // rounded up
	}
	return e
}

func (e Event) muSquared() float64 { return mechanisms[e.Kind].muSquared(e.PerUnit()) }
