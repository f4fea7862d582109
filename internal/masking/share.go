package masking

import (
	"fmt"

	"github.com/conclave-dp/conclave/gnmax"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/runspec"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// CheckPlan says whether all that a plan pays for can be masked: sums with Gaussian noise, also over samples.
// What else a run may ask is an argmax or a fit by exact sums, which an aggregator without them cannot draw.
func CheckPlan(plan privacy.Plan) error {
	for i, p := range plan {
		k := p.Mechanism.Kind
		if p.Kind == runspec.Fit || k != privacy.Gaussian && k != privacy.SubsampledGaussian {
			return fmt.Errorf("plan, entry %d: %s is answered by %s, which a masked run cannot draw; it asks sums "+
				"with "+
				"gaussian noise: take pipeline embed or marginals, or gpate by sums or dpgan with a warm start, or "+
					"ask "+
				"without masks", i, p.Kind, k)
		}
	}
	return nil
}

// ShareOf is the noise that each member of a group adds to a sum that an entry of a plan pays for.
func ShareOf(p privacy.Planned, v *conclavev1.Vector, g Group) (gnmax.Share, error) {
	multiplier := p.Mechanism.Sigma
	if p.Mechanism.Kind == privacy.SubsampledGaussian {
		multiplier = p.Mechanism.NoiseMultiplier
	}
	bound := int64(v.GetBound())
	if v.GetPer() == conclavev1.Vector_PER_TEACHER {
		bound *= 2 // as a unit may change what its teacher adds altogether
	}
	sum, err := gnmax.NewGaussianSum(bound, multiplier)
	if err != nil {
		return gnmax.Share{}, err
	}
	return sum.Share(g.Honest())
}
