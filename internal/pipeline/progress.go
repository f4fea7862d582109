package pipeline

// Progress tells how a run stands after a round.
type Progress struct {
	// Round counts rounds of answers from 1 to Rounds.
	Round, Rounds int
	EpsilonSpent  float64
	Answered      int
	Queries       int
}
