package run

import (
	"context"
	"errors"
	"fmt"
	"math"

	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/internal/classcounts"
	"github.com/conclave-dp/conclave/internal/nn/safetensors"
	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/internal/runspec"
	"github.com/conclave-dp/conclave/internal/student"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// countScale is the fixed-point unit of class counts: a unit with several
// records adds a fraction of it for each.
const countScale = 1 << 16

// answerClasses: a teacher's vote is 0, fake, or 1, real.
const answerClasses = 2

// oracle carries a pipeline's questions over the wire.
type oracle struct {
	client  *student.Client
	run     string
	teacher *conclavev1.TeacherSpec
	// plan says how large the noise is.
	plan *Plan
	// teachers is the number of the run's, coin marks the baseline.
	teachers int
	coin     bool
	// forget is the round below which the student asks none again: what it learned of
	// them is in its checkpoint.
	forget uint64
	// waiting is told how a round stands while it waits.
	waiting func(*conclavev1.Progress)
}

// ask asks a round, at the expense of the plan's entry for its kind in a stage.
func (o *oracle) ask(ctx context.Context, stage string, r *conclavev1.Round) (*conclavev1.Release, error) {
	var err error
	if r.Planned, err = o.plan.pays(r.Kind, stage); err != nil {
		return nil, err
	}
	return o.client.AskAndForget(ctx, r, o.forget, o.waiting)
}

// roundOf is a round of a run that asks a question of a kind.
func roundOf(run string, number uint64, kind string, params proto.Message, shape question.Shape) *conclavev1.Round {
	r := question.Ask(kind, params, shape)
	r.Run, r.Number = run, number
	return r
}

// Votes asks a round of votes.
func (o *oracle) Votes(ctx context.Context, round uint64, q *pipeline.VoteQuestion) (*pipeline.VoteAnswer, error) {
	release, err := o.ask(ctx, "", voteRound(o.run, round, o.teacher, q))
	if err != nil {
		return nil, err
	}
	a, err := votesOf(release, len(q.QueryClasses))
	if err != nil {
		return nil, err
	}
	a.Noise = o.plan.shareNoise(float64(release.Teachers))
	return a, nil
}

// shareNoise is the standard deviation of the noise on a query's share of n
// teachers: half the difference of two noisy counts over n. Of a winner, half
// the distance of what it can be.
func (p *Plan) shareNoise(n float64) float64 {
	m := p.Training.Mechanism
	switch {
	case p.Training.Variant != privacy.Histogram:
		return 0.5
	case m.Kind == privacy.LNMax:
		return 1 / (m.Lambda * n) // a count's noise has variance 2/lambda^2
	case m.Kind == privacy.ConfidentGNMax:
		return m.Sigma2 / (math.Sqrt2 * n)
	}
	return m.Sigma / (math.Sqrt2 * n)
}

// voteRound is a round of votes as nodes are sent it.
func voteRound(run string, number uint64, teacher *conclavev1.TeacherSpec, q *pipeline.VoteQuestion) *conclavev1.Round {
	return roundOf(run, number, runspec.Votes, &conclavev1.VoteQuestion{
		Teacher:  teacher,
		Training: tensor(q.Training, q.Width), TrainingClasses: classIDs(q.TrainingClasses),
		Queries: tensor(q.Queries, q.Width), QueryClasses: classIDs(q.QueryClasses),
		AnswerClasses: answerClasses,
	}, question.Shape{Votes: &question.Histogram{Queries: len(q.QueryClasses), Classes: answerClasses}})
}

// votesOf reads a release of n queries. A teacher votes fake or real, so the
// difference of the two noisy counts over the teachers is 2 share - 1.
func votesOf(release *conclavev1.Release, n int) (*pipeline.VoteAnswer, error) {
	votes := release.GetVotes()
	if votes == nil || len(votes.Labels) != n || (len(votes.Histogram) != 0 && len(votes.Histogram) != n*answerClasses) || release.Teachers == 0 {
		return nil, fmt.Errorf("the release of round %d does not fit its %d queries", release.GetRound(), n)
	}
	a := &pipeline.VoteAnswer{Share: make([]float32, n), Answered: make([]bool, n), EpsilonSpent: release.EpsilonSpent, Receipt: release.LedgerHash, Teachers: int(release.Teachers)}
	for i, label := range votes.Labels {
		a.Answered[i] = label >= 0
		switch {
		case label < 0:
		case len(votes.Histogram) > 0:
			fake, real := votes.Histogram[answerClasses*i], votes.Histogram[answerClasses*i+1]
			a.Share[i] = 0.5 + 0.5*float32(real-fake)/float32(release.Teachers)
		case label < answerClasses:
			a.Share[i] = float32(label)
		default:
			return nil, fmt.Errorf("the release of round %d has label %d of %d classes", release.GetRound(), label, answerClasses)
		}
	}
	return a, nil
}

// ClassCounts asks for the number of privacy units of each class.
func (o *oracle) ClassCounts(ctx context.Context, round uint64, classes int) (*pipeline.CountAnswer, error) {
	release, err := o.ask(ctx, "", countRound(o.run, round, classes))
	if err != nil {
		return nil, err
	}
	counts, err := countsOf(release, classes)
	if err != nil {
		return nil, err
	}
	return &pipeline.CountAnswer{Counts: counts, Scale: 1 / o.plan.ClassShareEpsilon, Receipt: release.LedgerHash, Teachers: int(release.Teachers)}, nil
}

// countRound is a round of class counts as nodes are sent it.
func countRound(run string, number uint64, classes int) *conclavev1.Round {
	return roundOf(run, number, runspec.ClassCounts, &conclavev1.ClassCounts{Classes: uint32(classes), Scale: countScale},
		classcounts.Shape(classes, countScale))
}

// countsOf reads a release of class counts, in privacy units.
func countsOf(release *conclavev1.Release, classes int) ([]float64, error) {
	sum := release.GetSum()
	if sum == nil || len(sum.Values) != classes || sum.Scale == 0 {
		return nil, errors.New("the release of the class counts does not fit the question")
	}
	counts := make([]float64, classes)
	for i, v := range sum.Values {
		counts[i] = float64(v) / float64(sum.Scale)
	}
	return counts, nil
}

func tensor(x []float32, width int) *conclavev1.Tensor {
	return &conclavev1.Tensor{Shape: []uint32{uint32(len(x) / width), uint32(width)}, Data: safetensors.Bytes(x)}
}

func classIDs(classes []int) []uint32 {
	ids := make([]uint32, len(classes))
	for i, c := range classes {
		ids[i] = uint32(c)
	}
	return ids
}
