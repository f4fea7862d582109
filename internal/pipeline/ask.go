package pipeline

import (
	"context"
	"errors"
	"math"
	"slices"

	"github.com/conclave-dp/conclave/internal/classcounts"
	"github.com/conclave-dp/conclave/internal/nn/safetensors"
	"github.com/conclave-dp/conclave/internal/pipeline/plan"
	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/internal/runspec"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// Asker asks the rounds of one run, each at the expense of the plan's entry for its kind in a
// stage, empty for the training. It fills in the run and the entry.
type Asker interface {
	Ask(ctx context.Context, stage string, r *conclavev1.Round) (*conclavev1.Release, error)
	// AskReduced is Ask for a kind with a reducer.
	AskReduced(ctx context.Context, stage string, r *conclavev1.Round) (*conclavev1.Release, error)
	// AskCached is Ask for a round that uses the sums of an earlier round. If the aggregator no longer caches
	// these, it asks that round again, which costs nothing.
	AskCached(ctx context.Context, stage string, r, sums *conclavev1.Round) (*conclavev1.Release, error)
	// Teachers returns the number of teachers of the run. Baseline tells whether answers contain nothing from
	// records.
	Teachers() int
	Baseline() bool
}

// ErrRefused means that the aggregator refuses a round and would refuse it again.
var ErrRefused = errors.New("refused")

// Largest describes the largest messages of a round.
type Largest struct {
	// Round is the message to a node. It has no records.
	Round        *conclavev1.Round
	RoundContent string
	// Answer is what the node sends back.
	Answer        *conclavev1.WorkRequest
	AnswerName    string
	AnswerContent string
	// AnswerClasses is the number of classes of a vote, 0 for a sum.
	AnswerClasses int
}

// LargestSum is the largest answer of a node with this many numbers.
func LargestSum(run string, round uint64, numbers int, largest int64) *conclavev1.WorkRequest {
	return &conclavev1.WorkRequest{Attempt: math.MaxUint32, Message: &conclavev1.WorkRequest_Sum{Sum: &conclavev1.Sum{
		Run: run, Round: round, Values: slices.Repeat([]int64{largest}, numbers),
	}}}
}

// LargestVotes is the largest answer to a round of votes.
func LargestVotes(round *conclavev1.Round, teachers, queries, classes int) *conclavev1.WorkRequest {
	shape := question.Histogram{Queries: queries, Classes: classes}
	return &conclavev1.WorkRequest{Attempt: math.MaxUint32,
		Message: &conclavev1.WorkRequest_Votes{Votes: &conclavev1.Votes{
			Run: round.Run, Round: round.Number, Teachers: uint32(teachers), Queries: uint32(queries),
			Packed: make([]byte, teachers*shape.RowBytes()),
		}}}
}

// Counter asks for class counts.
type Counter struct {
	Asker
	Scale float64 // of the noise on a count, in privacy units
}

// ClassCounts asks for the number of privacy units of each class.
func (c Counter) ClassCounts(ctx context.Context, round uint64, classes int) (*CountAnswer, error) {
	r := CountRound(classes)
	r.Number = round
	release, err := c.Ask(ctx, "", r)
	if err != nil {
		return nil, err
	}
	counts, err := countsOf(release, classes)
	if err != nil {
		return nil, err
	}
	return &CountAnswer{Counts: counts, Scale: c.Scale, Paid: PaidBy(release)}, nil
}

// CountRound is a round of class counts as it is sent to nodes.
func CountRound(classes int) *conclavev1.Round {
	return question.Ask(runspec.ClassCounts, &conclavev1.ClassCounts{Classes: uint32(classes), Scale: plan.CountScale},
		classcounts.Shape(classes, plan.CountScale))
}

// countsOf reads a release of class counts, in privacy units.
func countsOf(release *conclavev1.Release, classes int) ([]float64, error) {
	sum := release.GetSum()
	if sum == nil || len(sum.Values) != classes || sum.Scale == 0 {
		return nil, errors.New("the release of the class counts does not match the question")
	}
	counts := make([]float64, classes)
	for i, v := range sum.Values {
		counts[i] = float64(v) / float64(sum.Scale)
	}
	return counts, nil
}

// Tensor is rows of a width on the wire.
func Tensor(x []float32, width int) *conclavev1.Tensor {
	return &conclavev1.Tensor{Shape: []uint32{uint32(len(x) / width), uint32(width)}, Data: safetensors.Bytes(x)}
}

// ClassIDs converts classes to their form on the wire.
func ClassIDs(classes []int) []uint32 {
	ids := make([]uint32, len(classes))
	for i, c := range classes {
		ids[i] = uint32(c)
	}
	return ids
}
