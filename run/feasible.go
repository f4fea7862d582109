package run

import (
	"errors"
	"fmt"

	"github.com/conclave-dp/conclave/gnmax"
	"github.com/conclave-dp/conclave/privacy"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// checkFeasible refuses a plan that the aggregator would refuse when the run is
// open, or when the class shares are paid for already: noise that cannot be
// drawn, and a price that not even one round of votes can have.
func (p *Plan) checkFeasible(s *Spec, budget privacy.Budget) error {
	// A draw that is thrown away says whether noise of this size can be drawn.
	if _, err := gnmax.LaplaceCounts(gnmax.NewSource(), []int64{0}, countScale, p.ClassShareEpsilon); err != nil {
		return fmt.Errorf("pategan.class_share: %v of privacy.epsilon %v is too little to pay for the class shares (%w); raise either",
			s.PATEGAN.ClassShare, s.Privacy.Epsilon, err)
	}
	mend := "set pategan.noise otherwise, or to 0 to have it chosen"
	if s.PATEGAN.Noise == 0 {
		mend = "raise privacy.epsilon"
	}
	mechanism, err := p.mechanism()
	if err != nil {
		return fmt.Errorf("noise for %d labels: %w; %s", p.Labels, err, mend)
	}
	first := append(mechanism.Worst(int64(min(p.Labels, s.PATEGAN.Queries))), p.classShare()...)
	if _, err := budget.Admit(nil, first); errors.Is(err, privacy.ErrOverBudget) {
		return fmt.Errorf("pategan.noise: %v is too dear for one round of %d queries: %w; %s (sigma grows with the noise, lambda of lnmax falls)",
			s.PATEGAN.Noise, min(p.Labels, s.PATEGAN.Queries), err, mend)
	} else if err != nil {
		return err
	}
	return nil
}

// mechanism is what the aggregator makes of the plan's.
func (p *Plan) mechanism() (gnmax.Mechanism, error) {
	m := p.Mechanism
	switch m.Kind {
	case conclavev1.Mechanism_KIND_LNMAX:
		return gnmax.NewLNMax(m.Lambda, m.WholeHistogram)
	case conclavev1.Mechanism_KIND_GNMAX:
		return gnmax.NewGNMax(m.Sigma, m.WholeHistogram)
	case conclavev1.Mechanism_KIND_CONFIDENT_GNMAX:
		return gnmax.NewConfident(m.Threshold, m.SigmaThreshold, m.Sigma, m.WholeHistogram)
	}
	return nil, fmt.Errorf("mechanism %v is not known; use gnmax, lnmax or confident-gnmax", m.Kind)
}

// classShare is what the class shares cost.
func (p *Plan) classShare() []privacy.Event {
	return []privacy.Event{{Kind: privacy.Laplace, Epsilon: p.ClassShareEpsilon, Count: 1}}
}
