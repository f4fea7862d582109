package runspec

import (
	"fmt"
	"slices"

	"github.com/conclave-dp/conclave/internal/privacy"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// Rate is the probability that a contributor is in the sums that a plan entry pays for.
func Rate(p privacy.Planned) float64 {
	if p.Mechanism.Kind == privacy.SubsampledGaussian {
		return p.Mechanism.Rate
	}
	return 1
}

// Norms are the norms that may bound the vectors of the sums that a plan entry pays for; none if it pays for no
// sums.
//
//   - Gaussian noise requires the L2 norm, or the L1 norm, which is no smaller.
//   - Laplace noise requires the L1 norm; a norm-Gamma vector allows the L2 norm as well.
//   - A selection is by entries, and allows any norm.
func Norms(p privacy.Planned) []conclavev1.Vector_Norm {
	const l1, l2, each = conclavev1.Vector_NORM_L1, conclavev1.Vector_NORM_L2, conclavev1.Vector_NORM_EACH
	switch kind := p.Mechanism.Kind; {
	case kind == privacy.Exponential:
		return []conclavev1.Vector_Norm{l1, l2, each}
	case kind == privacy.Gaussian, kind == privacy.SubsampledGaussian,
		kind == privacy.Laplace && p.Variant == privacy.NormGamma:
		return []conclavev1.Vector_Norm{l1, l2}
	case kind == privacy.Laplace:
		return []conclavev1.Vector_Norm{l1}
	}
	return nil
}

// Pays checks that a plan entry pays for what a round asks. Without the check, a node could answer for all
// records at the price of a sample. A pass of a reducer is not released: only the result of all passes is, and
// it uses all records.
func Pays(p privacy.Planned, r *conclavev1.Round) error {
	v, norms := r.GetSum(), Norms(p)
	switch {
	case (v == nil) != (norms == nil) || v == nil && r.GetVotes() == nil:
		return otherShape(p)
	case v == nil:
		return nil
	case len(r.GetServes()) == 0:
		return PaysSum(p, v)
	case p.Mechanism.Kind == privacy.Exponential || v.GetRate() != 1:
		return otherShape(p)
	}
	return PaysSum(p, &conclavev1.Vector{Norm: conclavev1.Vector_NORM_L1, Per: conclavev1.Vector_PER_UNIT, Rate: 1})
}

// PaysSum checks that a plan entry pays for a sum, by everything that its price depends on. The number of entries of
// a vector, and its bound, do not matter: the noise is proportional to the bound, or to twice the bound if a
// contributor is a teacher. The number of sites of a unit is a property of the whole plan: see [Plan].
func PaysSum(p privacy.Planned, v *conclavev1.Vector) error {
	m, norms := p.Mechanism, Norms(p)
	switch {
	case norms == nil:
		return otherShape(p)
	case v.GetRate() != Rate(p):
		return fmt.Errorf("a sum over a sample of rate %v, but the plan's entry for %s pays for rate %v", v.GetRate(),
			p.Kind, Rate(p))
	case m.Kind == privacy.SubsampledGaussian && v.GetPer() != conclavev1.Vector_PER_UNIT:
		// The vector of a teacher changes with one more unit, which may be outside the sample while the teacher
		// is in it.
		return fmt.Errorf("the plan answers %s by %s noise, which is for samples of privacy units; this one is of %v",
			p.Kind, m.Kind, v.GetPer())
	case !slices.Contains(norms, v.GetNorm()):
		return fmt.Errorf("the plan answers %s by %s noise, which is for sums whose bound is of norm %v; this one is "+
			"of %v", p.Kind, m.Kind, norms, v.GetNorm())
	}
	return nil
}

func otherShape(p privacy.Planned) error {
	return fmt.Errorf("the plan answers %s by %s, which is for another shape", p.Kind, p.Mechanism.Kind)
}
