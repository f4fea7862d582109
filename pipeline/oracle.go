package pipeline

import "context"

// Oracle answers a run's rounds with private releases. Rounds are numbered
// from 0; asking a round again gives the same answer.
type Oracle interface {
	Votes(ctx context.Context, round uint64, q *VoteQuestion) (*VoteAnswer, error)
	ClassCounts(ctx context.Context, round uint64, classes int) (*CountAnswer, error)
}

// VoteQuestion holds the generated records of a round.
type VoteQuestion struct {
	// Width is the number of features of a record.
	Width int
	// Training holds the records that teachers train on, [len(TrainingClasses),
	// Width].
	Training        []float32
	TrainingClasses []int
	// Queries holds the records voted on, [len(QueryClasses), Width].
	Queries      []float32
	QueryClasses []int
}

// CountAnswer holds the release of class counts.
type CountAnswer struct {
	// Counts is the noisy number of privacy units of each class. It may be
	// negative.
	Counts []float64
	// Receipt is the hash of the ledger entry that paid for the release.
	Receipt string
	// Teachers is the number of teachers that took part.
	Teachers int
}

// VoteAnswer holds the release for each query.
type VoteAnswer struct {
	// Share is the noisy share of teachers that called a query real. Noise may
	// put it outside [0, 1]. Where only winners are released it is 0 or 1.
	Share []float32
	// Answered is false where a confidence threshold was not passed.
	Answered []bool
	// Noise is the standard deviation of the noise of a share.
	Noise float64
	// Receipt is the hash of the ledger entry that paid for the release.
	Receipt string
	// Teachers is the number of teachers that took part.
	Teachers int
	// EpsilonSpent is the run's total after the round.
	EpsilonSpent float64
}
