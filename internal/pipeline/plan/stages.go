package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/conclave-dp/conclave/internal/privacy"
)

// Stages pay for a run's questions after training, in the order in which they are asked.
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

// Cost is the largest cost of the stages.
func (p Stages) Cost() []privacy.Event { return privacy.Plan(p).Events() }

// Fixed tells whether the stages require that the whole plan of the run is priced in advance. Sums over samples
// need that, and under other rules pure DP composes badly with Gaussian noise.
func (p Stages) Fixed() bool {
	return slices.ContainsFunc(p, func(planned privacy.Planned) bool {
		return planned.Mechanism.Kind == privacy.SubsampledGaussian || planned.Mechanism.Kind == privacy.Laplace
	})
}

// Share is an option that sets the cost of something alone, as a share of a run's epsilon.
type Share struct {
	Field string
	Value float64
	// Pure marks noise of pure DP, whose shares add up. For other noise the squares add up, roughly.
	Pure bool
}

// Of describes the share for errors.
func (s Share) Of(budget privacy.Budget) string {
	if s.Value == 1 { // of stages alone
		return fmt.Sprintf("epsilon %v", budget.Epsilon)
	}
	return fmt.Sprintf("%s: %v of privacy.epsilon %v", s.Field, s.Value, budget.Epsilon)
}

// Alone is the share as a budget.
func (s Share) Alone(budget privacy.Budget) privacy.Budget {
	return privacy.Budget{Epsilon: s.Value * budget.Epsilon, Delta: budget.Delta, Overlap: budget.Overlap}
}

// NoRoom returns the error that round 0 and the stages leave no budget for the run's own questions, which what
// names. First is the option for the first round of a run without a start.
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
