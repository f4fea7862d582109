package pipeline

import conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"

// Paid is the part that every release has.
type Paid struct {
	// Receipt is the hash of the ledger entry that paid for the release.
	Receipt string
	// Teachers is the number of teachers that took part.
	Teachers int
	// EpsilonSpent is the run's total after the release.
	EpsilonSpent float64
}

// PaidBy returns the Paid of a release.
func PaidBy(r *conclavev1.Release) Paid {
	return Paid{r.GetLedgerHash(), int(r.GetTeachers()), r.GetEpsilonSpent()}
}

// CountAnswer holds the release of class counts.
type CountAnswer struct {
	// Counts is the noisy number of privacy units of each class. It may be
	// negative.
	Counts []float64
	// Scale is the scale of their Laplace noise.
	Scale float64
	Paid
}

// VoteAnswer holds the release for each query.
type VoteAnswer struct {
	// Share is the noisy share of teachers that called a query real. Noise may put it outside [0, 1]. If only
	// winners are released, it is 0 or 1.
	Share []float32
	// Answered is false if a query did not pass a confidence threshold.
	Answered []bool
	// Noise is the standard deviation of the noise of a share.
	Noise float64
	Paid
}

// TeacherQuestion holds the generated records of a round of teachers.
type TeacherQuestion struct {
	// Width is the number of features of a record.
	Width int
	// Training holds the records that teachers train on, [len(TrainingClasses),
	// Width].
	Training        []float32
	TrainingClasses []int
	// Records holds the records that are voted on or that gradients are asked for, [len(Classes), Width].
	Records []float32
	Classes []int
	// Seed determines the directions on which gradients are projected; 0 for votes.
	Seed uint64
}

// GradientAnswer holds the release of a round: votes, with or without their noisy
// histograms, or a sum. Numbers are per record and direction, record by record.
type GradientAnswer struct {
	// Winners holds the winning bin of each vote, -1 if it did not pass a confidence threshold; nil for a sum.
	Winners []int
	// Histogram holds the noisy count of every bin of every vote; nil if only winners are released.
	Histogram []float64
	// Sum holds the noisy sum of the teachers' clipped vectors over the number of teachers and the clip norm:
	// without noise its length is at most 1.
	Sum []float32
	// Noise is the standard deviation of the noise of a number of Sum, or of a count of
	// Histogram.
	Noise float64
	Paid
}

// DiscriminatorQuestion holds a discriminator whose gradient on real records is asked
// for.
type DiscriminatorQuestion struct {
	// Weights are the weights of the discriminator, first layer first.
	Weights []float32
	// Mean and Scale are the units of standard inputs, shape [classes, features]; nil for other inputs.
	Mean, Scale []float32
}

// DiscriminatorAnswer holds the release of a round.
type DiscriminatorAnswer struct {
	// Sum holds the noisy sum of the clipped gradients over a Poisson sample of the privacy units, one number
	// for each weight. A unit adds at most the clip norm.
	Sum []float32
	// Noise is the standard deviation of the noise of each number.
	Noise float64
	// Share is the share of the run's teachers that took part.
	Share float64
	Paid
}
