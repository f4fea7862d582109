package runspec

import (
	"fmt"

	"github.com/conclave-dp/conclave/internal/privacy"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// MaxBytes bounds a serialized spec, at the aggregator and at nodes. Most have a few hundred bytes.
const MaxBytes = 16 << 10

// Plan returns the plan of a spec. The error says which of its entries has no price, or none for the spec's
// overlap. It depends on the spec alone and may be told to its student.
func Plan(spec *conclavev1.RunSpec) (privacy.Plan, error) {
	plan := make(privacy.Plan, len(spec.GetPlan()))
	for i, p := range spec.GetPlan() {
		if p.GetCount() > maxCount {
			return nil, fmt.Errorf("plan, entry %d: count is %d; the maximum is %d", i, p.GetCount(), int64(maxCount))
		}
		plan[i] = privacy.Planned{
			Kind: p.GetKind(), Stage: p.GetStage(), Mechanism: event(p.GetMechanism()), Count: int64(p.GetCount()),
			Variant: p.GetVariant(),
		}
	}
	if err := plan.Validate(); err != nil {
		return nil, err
	}
	return plan, privacy.Budget{Overlap: int(spec.GetOverlap())}.CheckPlan(plan)
}

// maxCount keeps counts within an int64; [privacy.Planned.Validate] has the real bound.
const maxCount = 1 << 62

// Of returns the plan entries of a spec for a plan.
func Of(plan privacy.Plan) []*conclavev1.Planned {
	out := make([]*conclavev1.Planned, len(plan))
	for i, p := range plan {
		out[i] = &conclavev1.Planned{
			Kind: p.Kind, Stage: p.Stage, Mechanism: message(p.Mechanism), Count: uint64(p.Count), Variant: p.Variant,
		}
	}
	return out
}

// Budget returns the run's budget, with its filter.
func Budget(spec *conclavev1.RunSpec) (privacy.Budget, error) {
	b, err := privacy.NewBudget(spec.GetEpsilon(), spec.GetDelta())
	if err != nil {
		return privacy.Budget{}, err
	}
	b.Filter, b.Overlap = privacy.Filter(spec.GetFilter()), int(spec.GetOverlap())
	return b, b.Validate()
}

func event(e *conclavev1.PrivacyEvent) privacy.Event {
	return privacy.Event{
		Kind: privacy.Kind(e.GetKind()), Sigma: e.GetSigma(), Sensitivity: e.GetSensitivity(), Rate: e.GetRate(),
		NoiseMultiplier: e.GetNoiseMultiplier(), Threshold: e.GetThreshold(), Sigma1: e.GetSigma1(),
		Sigma2: e.GetSigma2(), Lambda: e.GetLambda(), Epsilon: e.GetEpsilon(), Count: e.GetCount(),
		Asked: e.GetAsked(), Answered: e.GetAnswered(),
	}
}

func message(e privacy.Event) *conclavev1.PrivacyEvent {
	return &conclavev1.PrivacyEvent{
		Kind: string(e.Kind), Sigma: e.Sigma, Sensitivity: e.Sensitivity, Rate: e.Rate,
		NoiseMultiplier: e.NoiseMultiplier, Threshold: e.Threshold, Sigma1: e.Sigma1, Sigma2: e.Sigma2,
		Lambda: e.Lambda, Epsilon: e.Epsilon, Count: e.Count, Asked: e.Asked, Answered: e.Answered,
	}
}
