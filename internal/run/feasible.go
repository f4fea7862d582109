package run

import (
	"errors"
	"fmt"

	"github.com/conclave-dp/conclave/gnmax"
	"github.com/conclave-dp/conclave/internal/privacy"
)

// priced names the options that a plan's prices come from, for errors.
type priced struct {
	// shareField and share are the option of the class shares, noiseField and noise
	// that of the noise.
	shareField, noiseField string
	share, noise           float64
	// hint says which way an option goes, what names the queries.
	hint, what string
}

// checkFeasible refuses a plan that the aggregator would refuse when the run is
// open, or when the class shares are paid for already: noise that cannot be
// drawn, and a price that not even one round can have.
func (p *Plan) checkFeasible(o priced, budget privacy.Budget) error {
	if p.Embedding == nil {
		if err := o.checkShare(p, budget); err != nil {
			return err
		}
	}
	mend := fmt.Sprintf("set %s otherwise, or to 0 to have it chosen", o.noiseField)
	if o.noise == 0 {
		mend = "raise privacy.epsilon"
		if p.Embedding != nil {
			mend += ", or lower warm_start.embed"
		}
	}
	round := min(p.Queries, p.PerRound)
	if err := p.drawable(); err != nil {
		return fmt.Errorf("noise for %d %s: %w; %s", p.Queries, o.what, err, mend)
	}
	first := p.Training.Worst(p.releases(round))
	if _, err := budget.Admit(nil, append(first, p.others()...)); errors.Is(err, privacy.ErrOverBudget) {
		return fmt.Errorf("%s: %v is too dear for one round of %d queries: %w; %s%s",
			o.noiseField, o.noise, round, err, mend, o.hint)
	} else if err != nil {
		return err
	}
	return nil
}

// checkShare refuses a price of the class shares that is too small to be drawn for.
func (o priced) checkShare(p *Plan, budget privacy.Budget) error {
	// A draw that is thrown away says whether noise of this size can be drawn.
	if _, err := gnmax.LaplaceCounts(gnmax.NewSource(), []int64{0}, countScale, p.ClassShareEpsilon); err != nil {
		return fmt.Errorf("%s: %v of privacy.epsilon %v is too little to pay for the class shares (%w); raise either",
			o.shareField, o.share, budget.Epsilon, err)
	}
	return nil
}
