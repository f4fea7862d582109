package privacy

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// Purse is what a run or a dataset may spend and what it has spent. Charges,
// the check before a question is asked, and the verification of ledgers all ask
// [Purse.Admit], so that they cannot disagree.
type Purse struct {
	Budget Budget
	// Plan is that of the run, or of the only run of a dataset, where the budget's
	// filter is FilterPLD, and was checked against the budget. Others have none.
	Plan Plan
	// PlanEpsilon is the claim of the plan, 0 without one.
	PlanEpsilon float64
	Spent       []Event // merged
}

// DatasetPurse is the purse of a dataset, from which a run with the plan (nil where it
// has none) is charged. A dataset with filter pld has one run, whose plan is its own.
func DatasetPurse(b Budget, spent []Event, plan Plan) Purse {
	p := Purse{Budget: b, Spent: spent}
	if b.Filter == FilterPLD {
		p.Plan = plan
	}
	return p
}

// CheckDatasetPlan answers whether a run with the plan (empty where it has none) may
// be opened on a dataset that has had so many runs and has spent so much. With filter
// pld the dataset's first run is its only one and needs a plan, whose claim at the
// dataset's delta is returned: a second run's plan could depend on the first one's
// answers. With another filter all of a plan must fit on top of what is spent.
// Errors match [ErrPlan], ErrOverBudget or both.
func CheckDatasetPlan(b Budget, spent []Event, runs int, plan Plan) (*Claim, error) {
	switch {
	case b.Filter == FilterPLD && runs > 0:
		return nil, fmt.Errorf("%w: a dataset with filter pld has one run, and it was opened; open the run on a dataset with filter rdp or gdp", ErrPlan)
	case b.Filter == FilterPLD && len(plan) == 0:
		return nil, fmt.Errorf("%w: a dataset with filter pld takes a run with a plan and a budget with filter pld; give it them, or use a dataset with filter gdp or rdp", ErrPlan)
	case b.Filter == FilterPLD:
		claim, err := plan.Check(b)
		if err != nil {
			return nil, err
		}
		return &claim, nil
	case len(plan) == 0:
		return nil, nil
	}
	if _, err := b.admit(spent, plan); err != nil {
		return nil, fmt.Errorf("%w: the whole plan must fit on top of what is spent, and the dataset's filter is %s: rdp suits samples, pld a dataset of one run; lower the run's epsilon, or open a dataset with room for the plan by its own filter: %w",
			ErrPlan, cmp.Or(b.Filter, FilterGDP), err)
	}
	return nil, nil
}

// ErrPlan is what errors.Is finds where a run cannot be opened for its plan, or for
// having none.
var ErrPlan = errors.New("the plan does not suit the dataset")

// errNoPlan is met only by who forgot the rule of entries.
var errNoPlan = errors.New("a budget with filter pld needs a plan, which is fixed before the first release")

// Admit answers, before anything is asked, whether next may be charged too, and
// returns the purse as it is then. With a plan it is asked whether the plan covers
// everything, which takes no time and is enough since the whole plan is within the
// budget; otherwise the budget's filter. The error matches ErrOverBudget where it
// does not fit.
func (p Purse) Admit(next []Event) (Purse, error) {
	if err := p.Budget.Validate(); err != nil {
		return Purse{}, err
	}
	if p.Budget.Filter != FilterPLD {
		spent, err := p.Budget.admit(p.Spent, next)
		if err != nil {
			return Purse{}, err
		}
		p.Spent = spent
		return p, nil
	}
	if len(p.Plan) == 0 {
		return Purse{}, errNoPlan
	}
	all := slices.Concat(p.Spent, next)
	if err := p.Plan.Covers(all); err != nil {
		return Purse{}, err
	}
	p.Spent = Merge(all)
	return p, nil
}

// EpsilonSpent is the running figure that ledger entries carry: that of [Running],
// or the claim of the plan where that is smaller. Both hold.
func (p Purse) EpsilonSpent() (float64, error) {
	claim, err := Running(p.Spent, p.Budget.Delta)
	if p.PlanEpsilon > 0 && (err != nil || p.PlanEpsilon < claim.Epsilon) {
		return p.PlanEpsilon, nil
	}
	return claim.Epsilon, err
}
