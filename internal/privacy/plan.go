package privacy

import (
	"encoding/json"
	"fmt"
	"slices"
)

// Plan is everything that a run may release, merged: kinds, parameters and the most
// of each. It stands in the entry that opens the run, before the first release, and
// is what [FilterPLD] can be asked about.
//
// Why that is private: each mechanism is dominated by a pair of distributions, so
// its output can be computed from one draw of that pair (Blackwell). All draws of
// the plan can be made beforehand, independently of each other. The run, in
// whatever order and however adaptively it asks, and whenever it stops, is
// post-processing of them (Zhu, Dong, Wang 2022, Theorem 10). So what is within the
// plan is (epsilon, delta)-DP as soon as the whole plan is. Parameters that are
// chosen in the light of answers have no draw made beforehand: hence the plan.
type Plan []Event

// planned are the kinds that a plan may have. What a confident query costs depends
// on its answer, of which a plan could count the worst only.
var planned = []Kind{Laplace, Gaussian, SubsampledGaussian, GNMax, Exponential, LNMax}

// maxPlan bounds the different events of a plan; pld takes no more.
const maxPlan = maxPairs

// Validate refuses a plan that is empty, holds an event that cannot be planned, or
// the same mechanism twice, with a [*FieldError].
func (p Plan) Validate() error {
	if len(p) == 0 || len(p) > maxPlan {
		return FieldErrorf("plan", "has %d events; name all that the run may release, each mechanism with its count, %d at most", len(p), maxPlan)
	}
	seen := make(map[Event]bool, len(p))
	for i, e := range p {
		if err := e.Validate(); err != nil {
			return fmt.Errorf("plan, event %d: %w", i+1, err)
		}
		if !slices.Contains(planned, e.Kind) {
			return FieldErrorf("plan", "has a %s event; a plan can have %v", e.Kind, planned)
		}
		if seen[e.parameters()] {
			return FieldErrorf("plan", "has %s twice; add up the counts of equal mechanisms", e.parameters().text())
		}
		seen[e.parameters()] = true
	}
	return nil
}

// Check returns the claim of the whole plan at the budget's delta, by all
// accountants, or an [*OverBudgetError] where it passes the budget's epsilon. It
// takes some tenths of a second: ask once, before the first release.
func (p Plan) Check(b Budget) (Claim, error) {
	if err := b.Validate(); err != nil {
		return Claim{}, fmt.Errorf("budget: %w", err)
	}
	if err := p.Validate(); err != nil {
		return Claim{}, err
	}
	claim, err := Account(p, b.Delta)
	if err != nil {
		return Claim{}, fmt.Errorf("plan: %w", err)
	}
	if claim.Epsilon > b.Epsilon {
		return Claim{}, fmt.Errorf("the whole plan: %w", &OverBudgetError{Budget: b, Needed: claim.Epsilon})
	}
	return claim, nil
}

// Covers answers whether the events are within the plan: nothing but its mechanisms,
// with its parameters, and of none more than it has. The error is a [*PlanError]
// where they are not.
func (p Plan) Covers(events []Event) error {
	left := make(map[Event]int64, len(p))
	counts := make(map[Event]int64, len(p))
	for _, e := range p {
		counts[e.parameters()] = e.Count
		left[e.parameters()] = e.Count
	}
	for i, e := range events {
		if err := e.Validate(); err != nil { // a negative count would give back
			return fmt.Errorf("event %d: %w", i+1, err)
		}
		n, known := left[e.parameters()]
		if !known || e.Count > n {
			return &PlanError{Event: e.parameters(), Planned: counts[e.parameters()], Used: counts[e.parameters()] - n, Asked: e.Count}
		}
		left[e.parameters()] = n - e.Count
	}
	return nil
}

// PlanError is a refusal of what a run's plan does not hold. It matches
// [ErrOverBudget]: what was asked is not released and not charged.
type PlanError struct {
	Event                Event // without its counts
	Planned, Used, Asked int64 // how often; Planned is 0 for what is not in the plan
}

func (e *PlanError) Error() string {
	if e.Planned == 0 {
		return fmt.Sprintf("over budget: the run's plan has no %s; it was fixed when the run was opened: ask what it has, or open a run with another plan", e.Event.text())
	}
	return fmt.Sprintf("over budget: the run's plan has %d of %s, %d of them are used and %d more were asked; the plan is used up: end the run",
		e.Planned, e.Event.text(), e.Used, e.Asked)
}

// Is makes errors.Is(err, ErrOverBudget) true.
func (e *PlanError) Is(target error) bool { return target == ErrOverBudget }

// text is the event as it stands in a ledger.
func (e Event) text() string {
	raw, err := json.Marshal(e)
	if err != nil { // noise that is no number
		return string(e.Kind)
	}
	return string(raw)
}
