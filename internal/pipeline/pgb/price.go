package pgb

import (
	"fmt"

	"github.com/conclave-dp/conclave/gnmax"
	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/pipeline/plan"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/runspec"
)

// ScoreBound is the fixed-point unit of a score.
const ScoreBound = 1 << 20

// share is the cost of all selections of a run, if it has any.
func share(o pipeline.Options, f pipeline.Followed) plan.Share {
	of := o.(*StageOptions)
	if !follows(f) || !of.Private {
		return plan.Share{}
	}
	return plan.Share{Field: "pgb.share", Value: of.Share}
}

// price is the price of the selections. In a masked run it is the price of the sums of all scores with Gaussian
// noise, from which the selections follow.
func price(o pipeline.Options, f pipeline.Followed, budget privacy.Budget) (plan.Stages, error) {
	share, rounds := share(o, f), o.(*StageOptions).Rounds
	if share.Value == 0 {
		return nil, nil
	}
	if f.Masked {
		sigma, err := privacy.GaussianSigma(share.Alone(budget), 1, nil)
		if err != nil {
			return nil, fmt.Errorf("%s for the scores: %w", share.Of(budget), err)
		}
		return plan.Stages{{
			Kind: runspec.Scores, Stage: runspec.Selections, Count: 1,
			Mechanism: budget.Event(privacy.Event{Kind: privacy.Gaussian, Sigma: sigma}),
		}}, nil
	}
	all := budget.Event(privacy.Event{Kind: privacy.Exponential, Epsilon: 1, Count: int64(rounds)})
	one, err := privacy.Calibrate(all, share.Alone(budget))
	if err != nil {
		return nil, fmt.Errorf("%s for %d selections: %w", share.Of(budget), rounds, err)
	}
	if _, err := gnmax.NewExponential(one.Epsilon, ScoreBound); err != nil {
		return nil, fmt.Errorf("%s for %d selections: %w; a larger share or epsilon, or fewer pgb.rounds, needs less "+
			"noise", share.Of(budget), rounds, err)
	}
	return plan.Stages{{
		Kind: runspec.Scores, Stage: runspec.Selections, Count: one.Count,
		Mechanism: budget.Event(privacy.Event{Kind: privacy.Exponential, Epsilon: one.Epsilon}),
	}}, nil
}
