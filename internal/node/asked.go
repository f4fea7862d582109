package node

import (
	"errors"
	"fmt"

	"github.com/conclave-dp/conclave/internal/question"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// maxAnswerBytes keeps an answer below gRPC's 4 MiB, with room for the fields around packed votes.
const maxAnswerBytes = 4<<20 - 1024

// check checks a round's question before any work. Only in a run opened as a baseline may the question be one that no
// record influences.
func check(kinds question.Registry, p *question.Public, r *conclavev1.Round, baseline bool) (*question.Checked, error) {
	if serves := len(r.GetServes()) > 0; serves != (kinds[r.GetKind()].Passes > 0) {
		return nil, errors.New("the round must set both pass and serves, or neither; install matching versions of " +
			"node and aggregator")
	}
	q, err := kinds.Read(p, r.GetKind(), r.GetParams())
	if err != nil {
		return nil, err
	}
	if err := q.Shape.Check(r); err != nil {
		return nil, err
	}
	if q.Baseline && !baseline {
		return nil, errors.New("the question is for a coin-vote baseline, but the run was opened without coin_votes; " +
			"open it with coin_votes")
	}
	if h := q.Shape.Votes; h != nil && p.Teachers*h.RowBytes() > maxAnswerBytes {
		return nil, fmt.Errorf("the votes of %d teachers on %d queries take %d bytes of at most %d; "+
			"ask fewer queries in a round",
			p.Teachers, h.Queries, p.Teachers*h.RowBytes(), maxAnswerBytes)
	}
	return q, nil
}
