package aggregator

import (
	"context"
	"fmt"

	"github.com/conclave-dp/conclave/coordinator"
	"github.com/conclave-dp/conclave/internal/privacy"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// termsOf are the terms of a round, which sites decide by: the run's spec as it is kept,
// and the most that the nodes' answers may cost; and an entry of the ledger that is to pay.
func termsOf(spec *runSpec, p *payload, q question, ledger coordinator.Mark) (*conclavev1.RoundTerms, error) {
	raw, err := marshalStable(spec.pb)
	if err != nil {
		return nil, fmt.Errorf("encode the terms of a round: %w", err)
	}
	terms := &conclavev1.RoundTerms{Spec: raw, Question: p.digest[:], Purpose: q.purpose(), Ledger: markOf(ledger)}
	for _, e := range charges(q, spec) {
		terms.Charges = append(terms.Charges, &conclavev1.PrivacyEvent{
			Kind: string(e.Kind), Sigma: e.Sigma, Sensitivity: e.Sensitivity, Rate: e.Rate, NoiseMultiplier: e.NoiseMultiplier,
			Threshold: e.Threshold, Sigma1: e.Sigma1, Sigma2: e.Sigma2, Lambda: e.Lambda, Epsilon: e.Epsilon,
			Count: e.Count, Asked: e.Asked, Answered: e.Answered,
		})
	}
	return terms, nil
}

// terms are termsOf with the ledger as it stands.
func (s *Server) terms(ctx context.Context, r *run, p *payload, q question) (*conclavev1.RoundTerms, error) {
	now, err := s.store.Snapshot(ctx, s.lead, p.key.run)
	if err != nil {
		return nil, fmt.Errorf("read the ledger's end: %w", err)
	}
	return termsOf(r.spec, p, q, now.Mark())
}

// charges is the most that is ever released of the answers to a question. Sums of scores
// are selected by again and again without asking a node, as often as the run may.
func charges(q question, spec *runSpec) []privacy.Event {
	if s, ok := q.(*scoreSum); ok {
		return s.mechanism.Cost(int64(spec.pb.GetSelections().GetCount()))
	}
	return q.worst()
}

// checkSelections refuses a selection beyond the number that the run was opened with: that
// many are what nodes were told when they answered.
func checkSelections(q question, spec *runSpec, spent []privacy.Event) error {
	if q.purpose() != "selection" {
		return nil
	}
	most := int64(spec.pb.GetSelections().GetCount())
	used := int64(0)
	for _, e := range spent {
		if e.Kind == privacy.Exponential {
			used += e.Count
		}
	}
	if used >= most {
		return overBudget(privacy.ErrOverBudget, "run %q was opened with %d selections and has had them; close the run, or open one with more", spec.pb.GetName(), most)
	}
	return nil
}
