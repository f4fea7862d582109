package pipeline

import conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"

// Paid is what every release says of itself.
type Paid struct {
	// Receipt is the hash of the ledger entry that paid for it.
	Receipt string
	// Teachers is the number of teachers that took part.
	Teachers int
	// EpsilonSpent is the run's total after it.
	EpsilonSpent float64
}

// PaidBy is that of a release.
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
	// Share is the noisy share of teachers that called a query real. Noise may
	// put it outside [0, 1]. Where only winners are released it is 0 or 1.
	Share []float32
	// Answered is false where a confidence threshold was not passed.
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
	// Records holds the records asked about, [len(Classes), Width]: to be voted on, or for gradients.
	Records []float32
	Classes []int
	// Seed gives the directions in which gradients are projected; 0 of votes.
	Seed uint64
}

// GradientAnswer holds the release of a round: votes, with or without their noisy
// histograms, or a sum. Numbers are per record and direction, record by record.
type GradientAnswer struct {
	// Winners holds the winning bin of each vote, -1 where a confidence threshold was
	// not passed; nil of a sum.
	Winners []int
	// Histogram holds the noisy count of every bin of every vote; nil where only
	// winners are released.
	Histogram []float64
	// Sum holds the noisy sum of the teachers' clipped vectors over the number of
	// teachers and the clip norm: its length is at most 1, but for the noise.
	Sum []float32
	// Noise is the standard deviation of the noise of a number of Sum, or of a count of
	// Histogram.
	Noise float64
	Paid
}

// DiscriminatorQuestion holds a discriminator whose gradient on real records is asked
// for.
type DiscriminatorQuestion struct {
	// Weights are those of the discriminator, first layer first.
	Weights []float32
	// Mean and Scale are the units of standard inputs, shape [classes, features]; nil
	// of others.
	Mean, Scale []float32
}

// DiscriminatorAnswer holds the release of a round.
type DiscriminatorAnswer struct {
	// Sum holds the noisy sum of the clipped gradients over a Poisson sample of the
	// privacy units, as many numbers as weights: a unit adds at most the clip norm.
	Sum []float32
	// Noise is the standard deviation of the noise of each number.
	Noise float64
	// Share is the share of the run's teachers that took part.
	Share float64
	Paid
}
