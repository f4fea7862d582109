package privacy

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// Spending is what a run or a dataset may spend and what it has spent. Charges, the check before a question, and the
// verification of ledgers all use [Spending.Use] for runs and [Spending.Admit] for datasets, so that they cannot
// disagree.
type Spending struct {
	Budget Budget
	// Plan is the run's plan, or that of the only run of a dataset whose budget has FilterPLD.
	Plan Plan
	// PlanEpsilon is the price of the whole plan if the budget has FilterPLD, otherwise 0.
	PlanEpsilon float64
	// Used counts the uses of each entry of a run's plan; nil if there are none.
	Used  []int64
	Spent []Event // merged
}

// DatasetSpending returns the spending of a dataset, from which a run with the plan is charged. A dataset with filter
// pld has one run, whose plan is its own.
func DatasetSpending(b Budget, spent []Event, plan Plan) Spending {
	p := Spending{Budget: b, Spent: spent}
	if b.Filter == FilterPLD {
		p.Plan = plan
	}
	return p
}

// CheckDatasetPlan decides whether a run with this filter and plan may be opened on a dataset that has had this
// many runs and spent this much. With filter pld the dataset's first run is its only one and must also use filter
// pld, because a second run's plan could depend on the first one's answers. The price of the plan at the dataset's
// delta is returned.
//
// With another filter, a whole plan with filter pld must fit on top of what is spent. Every entry must pay for the
// dataset's overlap. Errors match [ErrPlan], ErrOverBudget or both.
func CheckDatasetPlan(b Budget, spent []Event, runs int, filter Filter, plan Plan) (*Price, error) {
	if err := b.CheckPlan(plan); err != nil {
		return nil, err
	}
	switch {
	case b.Filter == FilterPLD && runs > 0:
		return nil, fmt.Errorf("%w: a dataset with filter pld can have only one run, which is already open; use a "+
			"dataset with filter rdp or gdp", ErrPlan)
	case b.Filter == FilterPLD && filter != FilterPLD:
		return nil, fmt.Errorf("%w: a dataset with filter pld needs a run with filter pld; change the run's filter, "+
			"or use a dataset with filter gdp or rdp", ErrPlan)
	case b.Filter == FilterPLD:
		price, err := plan.Check(b)
		if err != nil {
			return nil, err
		}
		return &price, nil
	case filter != FilterPLD:
		return nil, nil
	}
	if _, err := b.admit(spent, plan.Events()); err != nil {
		return nil, fmt.Errorf("%w: the whole plan must fit on top of the spending by the dataset's filter, %s (rdp "+
			"suits samples, pld a dataset of one run); lower the run's epsilon, or use another dataset: %w",
			ErrPlan, cmp.Or(b.Filter, FilterGDP), err)
	}
	return nil, nil
}

// ErrPlan matches, with errors.Is, the error that a run cannot be opened because of its plan, or because it has none.
var ErrPlan = errors.New("the plan does not suit the dataset")

// Use decides, before anything is asked, whether a run may use an entry of its plan this often. It returns the
// resulting spending and the cost of the use. With [FilterPLD] the whole plan is within the budget, so the entry
// only needs enough uses left; otherwise the budget's filter decides, too. The error matches ErrOverBudget if the
// use does not fit.
func (p Spending) Use(next Use) (Spending, []Event, error) {
	cost, err := p.Plan.Admit(p.Used, next)
	if err != nil {
		return Spending{}, nil, err
	}
	used := p.Plan.add(p.Used, next)
	if p, err = p.Admit(cost); err != nil {
		return Spending{}, nil, err
	}
	p.Used = used
	return p, cost, nil
}

// Admit reports whether next may be charged too, and returns the spending after that. With [FilterPLD] the spending of
// a run admits what [Spending.Use] found within the plan, because the plan was checked against the budget. The error
// matches ErrOverBudget if next does not fit.
func (p Spending) Admit(next []Event) (Spending, error) {
	if err := p.Budget.Validate(); err != nil {
		return Spending{}, err
	}
	if p.Budget.Filter != FilterPLD {
		spent, err := p.Budget.admit(p.Spent, next)
		if err != nil {
			return Spending{}, err
		}
		p.Spent = spent
		return p, nil
	}
	all := slices.Concat(p.Spent, next)
	if err := covers(p.Plan.Events(), all); err != nil {
		return Spending{}, err
	}
	p.Spent = Merge(all)
	return p, nil
}

// covers checks that events are within those of a whole plan: only its mechanisms, with its parameters, and none more
// often.
func covers(plan, events []Event) error {
	left := make(map[Event]int64, len(plan))
	for _, e := range plan {
		left[e.parameters()] = e.Count
	}
	for i, e := range events {
		if err := e.Validate(); err != nil { // a negative count would give budget back
			return fmt.Errorf("event %d: %w", i+1, err)
		}
		n, known := left[e.parameters()]
		if !known || e.Count > n {
			return fmt.Errorf("%w: the run's plan does not have %s that often",
				ErrOverBudget, e.text())
		}
		left[e.parameters()] = n - e.Count
	}
	return nil
}

// EpsilonSpent is the figure in ledger entries: that of [Running], or the price of the plan if that is smaller. Both
// are valid.
func (p Spending) EpsilonSpent() (float64, error) {
	price, err := Running(p.Spent, p.Budget.Delta)
	if p.PlanEpsilon > 0 && (err != nil || p.PlanEpsilon < price.Epsilon) {
		return p.PlanEpsilon, nil
	}
	return price.Epsilon, err
}
