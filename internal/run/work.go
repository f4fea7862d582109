package run

import (
	"context"

	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/report"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/encode"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// work is what a run has to know of its pipeline: what it asks, at what price, and how
// it learns.
type work interface {
	// largest is the largest round that a node is sent, and the largest answer of a node
	// with so many teachers, with words for both.
	largest(p *Plan, e *encode.Encoder, teachers int) largest
	// teacherSpec is how the run's teachers learn and answer.
	teacherSpec(schema *partition.Schema, classes int, coin bool) *conclavev1.TeacherSpec
	// student makes an untrained one.
	student(e *encode.Encoder, p *Plan) (trainer, error)
}

// trainer is a pipeline's student.
type trainer interface {
	// Save and Restore keep the student's state; identity names all it depends on.
	Save(path, identity string) error
	Restore(path, identity string) (bool, error)
	Generator() *pipeline.Generator
	// StartWith has the student begin with more than the class counts.
	StartWith(start pipeline.Start)
	// Rounds is the number of rounds learned from, besides that of the class counts.
	Rounds() int
	// Notes are what the student keeps of its releases.
	Notes() *pipeline.Learned
	// learn asks the rounds of the plan, or of a closed run only those that were released.
	learn(ctx context.Context, ask *oracle, rounds int, keep func() error, progress func(pipeline.Progress)) error
	// shares summarizes the answers of the rounds of which that says something.
	shares() map[uint64]*report.Shares
}

// largest describes the messages of a round.
type largest struct {
	round         *conclavev1.Round
	roundContent  string
	answer        *conclavev1.WorkRequest
	answerName    string
	answerContent string
	answersAClass int // the classes of a vote, 0 of a sum
}

// work returns that of the spec's pipeline.
func workOf(s *Spec) work {
	switch s.Pipeline {
	case "gpate":
		return &gpateWork{s}
	case "dpgan":
		return &dpganWork{s}
	case "embed":
		return &embedWork{s}
	}
	return &pateganWork{s}
}
