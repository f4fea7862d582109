package ledger

import (
	"fmt"
	"slices"

	"github.com/conclave-dp/conclave/internal/privacy"
)

// openRun checks the entry that opens a run, and its plan against the run's budget and, if that has filter pld too, the
// dataset's.
func (a *verifier) openRun(e Entry) error {
	b := a.result.Budget
	if a.strict && e.Budget.Delta >= b.Delta && e.Budget.Epsilon > b.Epsilon {
		return fmt.Errorf("run %q has a budget of epsilon %v, but its dataset only %v in total; an aggregator does "+
			"not open such a run", e.Run, e.Budget.Epsilon, b.Epsilon)
	}
	if err := a.opens(e); err != nil {
		return err
	}
	if e.Budget.Overlap != b.Overlap {
		return fmt.Errorf("run %q assumes privacy units at up to %d sites, and those of its dataset may be at up to "+
			"%d", e.Run, e.Budget.Sites(), b.Sites())
	}
	if err := b.CheckPlan(e.Plan); err != nil {
		return fmt.Errorf("run %q: %w", e.Run, err)
	}
	run := RunTotal{Budget: *e.Budget, Plan: e.Plan, Facts: *e.Facts, Opened: e.Day, Masked: e.Masked}
	if run.Budget.Filter == privacy.FilterPLD {
		price, err := run.Plan.Check(run.Budget)
		if err != nil {
			return fmt.Errorf("budget of run %q: %w", e.Run, err)
		}
		run.PlanPrice = &price
	}
	price, err := privacy.CheckDatasetPlan(b, a.result.Events, len(a.result.Runs), run.Budget.Filter, run.Plan)
	// Releases that do not fit a filter for adaptive lists are refused one by one.
	if err != nil && (a.strict || b.Filter == privacy.FilterPLD) {
		return fmt.Errorf("budget of dataset %q: %w", e.Dataset, err)
	}
	a.planPrice = price
	a.result.Runs[e.Run] = run
	a.rounds[e.Run] = make(map[uint64]bool)
	return nil
}

func (r RunTotal) spending() privacy.Spending {
	p := privacy.Spending{Budget: r.Budget, Plan: r.Plan, Used: r.Used, Spent: r.Events}
	if r.PlanPrice != nil {
		p.PlanEpsilon = r.PlanPrice.Epsilon
	}
	return p
}

// charge checks the entry of a question, released or abandoned, and adds its cost.
func (a *verifier) charge(run *RunTotal, e Entry) error {
	if a.rounds[e.Run][*e.Round] {
		return fmt.Errorf("round %d of run %q was already released", *e.Round, e.Run)
	}
	a.rounds[e.Run][*e.Round] = e.Type == EntryRelease
	if a.strict && *e.Round != uint64(run.Releases) {
		return fmt.Errorf("round %d of run %q follows %d rounds; rounds must count from 0 without gaps",
			*e.Round, e.Run, run.Releases)
	}
	ofRun, cost, err := run.spending().Use(privacy.Use{Planned: *e.Planned, Queries: e.Queries, Answered: e.Answered})
	if err != nil {
		return fmt.Errorf("budget of run %q: %w", e.Run, err)
	}
	if planned := run.Plan[*e.Planned]; e.Kind != planned.Kind || !slices.Equal(e.Events, cost) {
		return fmt.Errorf("round %d of run %q has events for %s that do not match %d of %d answers under entry %d of "+
			"the run's plan, for %s",
			*e.Round, e.Run, e.Kind, e.Answered, e.Queries, *e.Planned, planned.Kind)
	}
	ofDataset, err := privacy.DatasetSpending(a.result.Budget, a.result.Events, run.Plan).Admit(e.Events)
	if err != nil {
		return fmt.Errorf("budget of dataset %q: %w", e.Dataset, err)
	}
	run.Used, run.Events, a.result.Events = ofRun.Used, ofRun.Spent, ofDataset.Spent
	if e.Type == EntryAbandoned {
		run.Abandoned++
		return nil
	}
	run.Releases++
	run.Queries += e.Queries
	run.Answered += e.Answered
	return nil
}

// accountWithin is [Account], or the price of the plan (nil without one) if that is smaller: the grid of a part may be
// slightly coarser than that of the whole.
func accountWithin(plan *privacy.Price, events []privacy.Event, delta float64) (privacy.Price, error) {
	price, err := privacy.Account(events, delta)
	if plan != nil && (err != nil || plan.Epsilon < price.Epsilon) {
		return *plan, nil
	}
	return price, err
}
