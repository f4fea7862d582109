package masking

import (
	"errors"
	"fmt"

	"github.com/conclave-dp/conclave/gnmax"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/runspec"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// CheckPlan reports whether everything that a plan pays for can be masked: sums with Gaussian noise, also over
// samples, and histograms of votes with it. Other questions select or fit with exact sums. The aggregator of a
// masked run does not have those.
func CheckPlan(plan privacy.Plan) error {
	for i, p := range plan {
		switch k := p.Mechanism.Kind; {
		case p.Kind == runspec.Fit:
		case k == privacy.Gaussian, k == privacy.SubsampledGaussian, k == privacy.GNMax:
			continue
		}
		return fmt.Errorf("plan, entry %d: %s is answered by %s, which masked runs do not support; use gnmax for "+
			"votes and leave out selections and fits, or ask without masks", i, p.Kind, p.Mechanism.Kind)
	}
	return nil
}

// VoteSteps is the number of steps of a vote in a masked histogram, so that a share of small noise still spans
// many steps.
const VoteSteps = 1 << 8

// Asked is the vector that a round of a masked run asks for: its length, and the noise that each member adds, by
// the plan's entry that pays.
//
// A histogram of votes is a vector of counts, each in units of VoteSteps. One privacy unit changes one teacher's
// vote, so it moves two counts by one vote. With noise sigma on each that is sqrt(2)/sigma-GDP, which a gnmax
// event is charged with. The winner is computed from the noisy counts. See [gnmax.GNMaxMechanism].
func Asked(p privacy.Planned, r *conclavev1.Round, g Group) (entries int, share gnmax.Share, err error) {
	bound, multiplier := int64(VoteSteps), p.Mechanism.Sigma
	switch v, votes := r.GetSum(), r.GetVotes(); {
	case len(r.GetServes()) > 0 || r.GetSelection() != nil || v == nil && votes == nil:
		return 0, share, errors.New("the run is masked, but the round asks for no released sum; ask without masks")
	case v != nil:
		entries, bound = int(v.GetEntries()), int64(v.GetBound())
		if v.GetPer() == conclavev1.Vector_PER_TEACHER {
			bound *= 2 // a unit may change its teacher's whole vector
		}
		if p.Mechanism.Kind == privacy.SubsampledGaussian {
			multiplier = p.Mechanism.NoiseMultiplier
		}
	default:
		entries = int(votes.GetQueries()) * int(votes.GetClasses())
	}
	sum, err := gnmax.NewGaussianSum(bound, multiplier)
	if err != nil {
		return 0, share, err
	}
	share, err = sum.Share(g.Honest())
	return entries, share, err
}
