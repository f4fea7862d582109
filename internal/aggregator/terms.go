package aggregator

import (
	"context"
	"fmt"

	"github.com/conclave-dp/conclave/coordinator"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// termsOf are the terms of a round, which sites decide by: the run's spec as it is kept, whose
// plan says what the answers may cost, and an entry of the ledger that is to pay.
func termsOf(spec *runSpec, p *payload, ledger coordinator.Mark) (*conclavev1.RoundTerms, error) {
	raw, err := marshalStable(spec.pb)
	if err != nil {
		return nil, fmt.Errorf("encode the terms of a round: %w", err)
	}
	return &conclavev1.RoundTerms{Spec: raw, Question: p.digest[:], Ledger: markOf(ledger)}, nil
}

// terms are termsOf with the ledger as it stands.
func (s *Server) terms(ctx context.Context, r *run, p *payload) (*conclavev1.RoundTerms, error) {
	now, err := s.store.Snapshot(ctx, s.lead, p.key.run)
	if err != nil {
		return nil, fmt.Errorf("read the ledger's end: %w", err)
	}
	return termsOf(r.spec, p, now.Mark())
}
