package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/conclave-dp/conclave/internal/privacy"
)

// Stages pay for what a run asks after training, in the order in which it is asked.
type Stages privacy.Plan

// Of returns the entry of a stage; ok is false for none.
func (p Stages) Of(stage string) (planned privacy.Planned, ok bool) {
	for _, planned := range p {
		if planned.Stage == stage {
			return planned, true
		}
	}
	return privacy.Planned{}, false
}

// Cost is all that the stages may cost.
func (p Stages) Cost() []privacy.Event { return privacy.Plan(p).Events() }

// Fixed tells whether the whole plan of the run is priced in advance because of its stages: sums over samples need
// that, and pure DP composes badly with Gaussian noise by other rules.
func (p Stages) Fixed() bool {
	return slices.ContainsFunc(p, func(planned privacy.Planned) bool {
		return planned.Mechanism.Kind == privacy.SubsampledGaussian || planned.Mechanism.Kind == privacy.Laplace
	})
}

// Share is an option for the share of a run's epsilon that something costs by itself.
type Share struct {
	Field string
	Value float64
	// Pure marks noise of pure DP, whose shares add up; of the others' the squares do, roughly.
	Pure bool
}

// Of describes the share for errors.
func (s Share) Of(budget privacy.Budget) string {
	if s.Value == 1 { // of stages by themselves
		return fmt.Sprintf("epsilon %v", budget.Epsilon)
	}
	return fmt.Sprintf("%s: %v of privacy.epsilon %v", s.Field, s.Value, budget.Epsilon)
}

// Alone is the share as a budget.
func (s Share) Alone(budget privacy.Budget) privacy.Budget {
	return privacy.Budget{Epsilon: s.Value * budget.Epsilon, Delta: budget.Delta, Overlap: budget.Overlap}
}

// NoRoom says that what comes before a run's own questions, which are what, and after them
// leaves nothing of the budget. First is the option of what a run without a start begins with.
func (p *Plan) NoRoom(budget privacy.Budget, first Share, what string) error {
	if p.Start != nil {
		first = Share{Field: p.Start.Field, Value: p.Start.Share}
	}
	var parts []string
	for _, s := range append([]Share{first}, p.Shares...) {
		parts = append(parts, fmt.Sprintf("%s: %v", s.Field, s.Value))
	}
	leave, lower := "leaves", "it"
	if len(parts) > 1 {
		leave, lower = "leave", "them"
	}
	return fmt.Errorf("%s %s nothing of privacy.epsilon %v for %s; lower %s, or raise privacy.epsilon",
		strings.Join(parts, ", "), leave, budget.Epsilon, what, lower)
}
