package node

import (
	"github.com/conclave-dp/conclave/internal/question"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// answer computes the node's answer to a question.
func (n *Node) answer(q *received) (*conclavev1.WorkRequest, error) {
	checked, err := check(n.kinds, n.site.Public, q.round)
	if err != nil {
		return nil, err
	}
	r := question.Round{Run: q.round.Run, Number: q.round.Number, Digest: q.digest}
	switch {
	case checked.Votes != nil:
		packed, err := checked.Votes(n.site, r)
		if err != nil {
			return nil, err
		}
		return &conclavev1.WorkRequest{Message: &conclavev1.WorkRequest_Votes{Votes: &conclavev1.Votes{
			Run: r.Run, Round: r.Number, Packed: packed,
			Teachers: uint32(n.site.Teachers), Queries: uint32(checked.Shape.Votes.Queries),
		}}}, nil
	case checked.Sum != nil:
		values, err := checked.Sum(n.site, r)
		if err != nil {
			return nil, err
		}
		return &conclavev1.WorkRequest{Message: &conclavev1.WorkRequest_Sum{Sum: &conclavev1.Sum{
			Run: r.Run, Round: r.Number, Values: values,
		}}}, nil
	}
	return nil, question.ErrUnknown // it is the aggregator's to answer
}
