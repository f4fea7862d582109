package privacy

import "fmt"

// openRun checks the entry that opens a run, and its plan against the budgets of the
// run and, where that has filter pld too, of the dataset.
func (a *auditor) openRun(e Entry) error {
	b := a.result.Budget
	if a.strict && e.Budget.Delta >= b.Delta && e.Budget.Epsilon > b.Epsilon {
		return fmt.Errorf("run %q has a budget of epsilon %v, its dataset one of %v in all; an aggregator does not open such a run", e.Run, e.Budget.Epsilon, b.Epsilon)
	}
	run := RunTotal{Budget: *e.Budget, Plan: e.Plan}
	if len(e.Plan) > 0 {
		claim, err := Plan(e.Plan).Check(run.Budget)
		if err != nil {
			return fmt.Errorf("budget of run %q: %w", e.Run, err)
		}
		run.PlanClaim = &claim
	}
	claim, err := CheckDatasetPlan(b, a.result.Events, len(a.result.Runs), e.Plan)
	// What does not fit a filter for adaptive lists is refused release by release.
	if err != nil && (a.strict || b.Filter == FilterPLD) {
		return fmt.Errorf("budget of dataset %q: %w", e.Dataset, err)
	}
	a.planClaim = claim
	a.result.Runs[e.Run] = run
	a.rounds[e.Run] = make(map[uint64]bool)
	return nil
}

func (r RunTotal) purse() Purse {
	p := Purse{Budget: r.Budget, Plan: r.Plan, Spent: r.Events}
	if r.PlanClaim != nil {
		p.PlanEpsilon = r.PlanClaim.Epsilon
	}
	return p
}

func (a *auditor) release(run *RunTotal, e Entry) error {
	if a.rounds[e.Run][*e.Round] {
		return fmt.Errorf("round %d of run %q was released before", *e.Round, e.Run)
	}
	a.rounds[e.Run][*e.Round] = true
	if a.strict {
		if err := e.releasedAsWritten(run.Releases); err != nil {
			return err
		}
	}
	ofRun, err := run.purse().Admit(e.Events)
	if err != nil {
		return fmt.Errorf("budget of run %q: %w", e.Run, err)
	}
	ofDataset, err := DatasetPurse(a.result.Budget, a.result.Events, run.Plan).Admit(e.Events)
	if err != nil {
		return fmt.Errorf("budget of dataset %q: %w", e.Dataset, err)
	}
	run.Events, a.result.Events = ofRun.Spent, ofDataset.Spent
	run.Releases++
	run.Queries += e.Queries
	run.Answered += e.Answered
	return nil
}
