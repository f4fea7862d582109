// Package teacherstest makes questions to teachers about questiontest.SmallSchema, for tests of teachers and
// nodes.
package teacherstest

import (
	"math/rand/v2"

	"github.com/conclave-dp/conclave/internal/nn/safetensors"
	"github.com/conclave-dp/conclave/internal/question/questiontest"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// Teacher is logistic regression that votes real or fake.
func Teacher() *conclavev1.TeacherSpec {
	return &conclavev1.TeacherSpec{
		Model: conclavev1.TeacherSpec_MODEL_LOGISTIC, Vote: conclavev1.TeacherSpec_VOTE_RELATIVE,
		Classes: 2, Steps: 5, Batch: 8, LearningRate: 0.1, WeightDecay: 0.1, Seed: 7,
		Features: conclavev1.TeacherSpec_FEATURES_PLAIN,
	}
}

// Generated draws records with their classes as a student would.
func Generated(rows, features int, rng *rand.Rand) (*conclavev1.Tensor, []uint32) {
	x, classes := make([]float32, rows*features), make([]uint32, rows)
	for i := range x {
		x[i] = rng.Float32()
	}
	for i := range classes {
		classes[i] = uint32(i % 2)
	}
	return &conclavev1.Tensor{Shape: []uint32{uint32(rows), uint32(features)}, Data: safetensors.Bytes(x)}, classes
}

// Votes asks for votes with 16 training records and 12 queries; each seed gives other records.
func Votes(seed uint64) *conclavev1.VoteQuestion {
	rng := rand.New(rand.NewPCG(seed, 99))
	q := &conclavev1.VoteQuestion{Teacher: Teacher(), AnswerClasses: 2}
	q.Training, q.TrainingClasses = Generated(16, questiontest.SmallFeatures, rng)
	q.Queries, q.QueryClasses = Generated(12, questiontest.SmallFeatures, rng)
	return q
}

// GradientVotes asks for votes on gradients at the records of Votes.
func GradientVotes(seed uint64) *conclavev1.VoteQuestion {
	q := Votes(seed)
	q.Teacher.Vote, q.AnswerClasses = conclavev1.TeacherSpec_VOTE_GRADIENT, 10
	q.Gradient = &conclavev1.Projection{Directions: 3, Seed: seed, Clip: 0.05}
	return q
}

// GradientSum asks for a sum of gradients at the records of Votes.
func GradientSum(seed uint64, clip float64) *conclavev1.GradientSum {
	v := Votes(seed)
	v.Teacher.Vote = conclavev1.TeacherSpec_VOTE_GRADIENT
	return &conclavev1.GradientSum{
		Teacher: v.Teacher, Training: v.Training, TrainingClasses: v.TrainingClasses,
		Queries: v.Queries, QueryClasses: v.QueryClasses, Clip: clip, Bound: 1 << 16,
	}
}
