package runspec

// The kinds of questions, as plans name them.
const (
	ClassCounts   = "class-counts"
	Embedding     = "embedding"
	Votes         = "votes"
	GradientVotes = "gradient-votes"
	GradientSums  = "gradient-sums"
	Discriminator = "discriminator"
	Scores        = "scores"
	Fit           = "fit"
)

// The stages after training, as plans name them.
const (
	Selections   = "selections"
	Coefficients = "fit"
	Sampled      = "sampled"
)
