package runspec

import conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"

// KindOf is what a plan calls the question of a round, empty for none that a student may ask:
// the passes of a fit are the aggregator's own.
func KindOf(r *conclavev1.Round) string {
	switch {
	case r.GetVote().GetGradient() != nil:
		return GradientVotes
	case r.GetVote() != nil:
		return Votes
	case r.GetSelection() != nil, r.GetSum().GetScores() != nil:
		return Scores
	case r.GetFit() != nil:
		return Fit
	case r.GetSum().GetGradients() != nil:
		return GradientSums
	case r.GetSum().GetDiscriminator() != nil:
		return Discriminator
	case r.GetSum().GetEmbedding() != nil:
		return Embedding
	case r.GetSum().GetClassCounts() != nil:
		return ClassCounts
	}
	return ""
}
