package node

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/internal/sitepolicy"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// asked returns the kind of a round's question and its parameters, and no kind of what nodes
// are not asked. Only this function knows what a round may hold.
func asked(r *conclavev1.Round) (sitepolicy.Kind, proto.Message) {
	switch {
	case r.GetVote().GetGradient() != nil:
		return sitepolicy.GradientVotes, r.GetVote()
	case r.GetVote() != nil:
		return sitepolicy.Votes, r.GetVote()
	case r.GetFit() != nil:
		return sitepolicy.Fit, r.GetFit()
	}
	switch s := r.GetSum().GetStatistic().(type) {
	case *conclavev1.SumQuestion_ClassCounts:
		return sitepolicy.ClassCounts, s.ClassCounts
	case *conclavev1.SumQuestion_Gradients:
		return sitepolicy.GradientSum, s.Gradients
	case *conclavev1.SumQuestion_Discriminator:
		return sitepolicy.DiscriminatorSum, s.Discriminator
	case *conclavev1.SumQuestion_Embedding:
		return sitepolicy.EmbeddingSum, s.Embedding
	case *conclavev1.SumQuestion_Scores:
		return sitepolicy.ScoreSum, s.Scores
	case *conclavev1.SumQuestion_Logistic:
		return sitepolicy.Fit, s.Logistic
	}
	return "", nil
}

// KindOf is what a round asks, as sites' policies call it.
func KindOf(r *conclavev1.Round) sitepolicy.Kind {
	kind, _ := asked(r)
	return kind
}

// maxAnswerBytes keeps an answer below gRPC's 4 MiB with room for the
// fields around packed votes.
const maxAnswerBytes = 4<<20 - 1024

// check checks a round's question, before anything is done for it.
func check(kinds question.Registry, p *question.Public, r *conclavev1.Round) (*question.Checked, error) {
	kind, params := asked(r)
	q, err := kinds.Read(p, string(kind), params)
	if err != nil {
		return nil, err
	}
	if h := q.Shape.Votes; h != nil && p.Teachers*h.RowBytes() > maxAnswerBytes {
		return nil, fmt.Errorf("the votes of %d teachers on %d queries take %d bytes of at most %d; "+
			"ask fewer queries in a round",
			p.Teachers, h.Queries, p.Teachers*h.RowBytes(), maxAnswerBytes)
	}
	return q, nil
}
