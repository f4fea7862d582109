package pategan

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/pipeline/plan"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/internal/report/text"
	"github.com/conclave-dp/conclave/internal/runspec"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// teacherSpec describes how the run's teachers learn and vote.
func (t *training) teacherSpec(baseline bool) *conclavev1.TeacherSpec {
	o := t.o.Teacher
	spec := &conclavev1.TeacherSpec{
		Model: conclavev1.TeacherSpec_MODEL_LOGISTIC, Classes: uint32(t.Classes),
		Steps: uint32(o.Steps), Batch: uint32(o.Batch), LearningRate: float32(o.Rate), WeightDecay: float32(o.Decay),
		Seed: t.Seed,
	}
	if spec.Features = conclavev1.TeacherSpec_FEATURES_STANDARD; o.Features == "plain" {
		spec.Features = conclavev1.TeacherSpec_FEATURES_PLAIN
	}
	if o.Model == "hidden" {
		spec.Model, spec.Hidden = conclavev1.TeacherSpec_MODEL_HIDDEN, uint32(o.Hidden)
	}
	switch {
	case baseline:
		spec.Vote = conclavev1.TeacherSpec_VOTE_COIN
	case t.o.Votes == Relative:
		spec.Vote = conclavev1.TeacherSpec_VOTE_RELATIVE
	case t.o.Votes == Plain:
		spec.Vote = conclavev1.TeacherSpec_VOTE_PLAIN
	default:
		spec.Vote = conclavev1.TeacherSpec_VOTE_CALIBRATED
	}
	return spec
}

// answerClasses is 2: a teacher's vote is 0, fake, or 1, real.
const answerClasses = 2

// Largest returns the messages of a round.
func (t *training) Largest(p *plan.Plan, teachers int) pipeline.Largest {
	width := t.Encoder.Width()
	queries, training := min(p.Queries, p.PerRound), t.o.Teacher.Training
	class := []int{p.Classes - 1} // the class that takes the most bytes
	round := voteRound(uint64(p.Rounds), t.teacherSpec(false), &pipeline.TeacherQuestion{
		Width:    width,
		Training: make([]float32, training*width), TrainingClasses: slices.Repeat(class, training),
		Records: make([]float32, queries*width), Classes: slices.Repeat(class, queries),
	})
	round.Run = t.Run
	return pipeline.Largest{
		Round: round,
		RoundContent: fmt.Sprintf("%d generated records to train on, %d to vote on, %s each; no real records",
			training, queries, text.Several(width, "number")),
		Answer:     pipeline.LargestVotes(round, teachers, queries, answerClasses),
		AnswerName: "votes", AnswerClasses: answerClasses,
		AnswerContent: fmt.Sprintf("one bit per teacher and query, %d teachers x %d queries; the aggregator sees "+
			"these votes, and releases only noisy sums over all teachers", teachers, queries),
	}
}

// Student returns an untrained student.
func (t *training) Student(p *plan.Plan) (pipeline.Student, error) {
	trainer, err := New(t.o, t.Encoder, t.Classes, t.Seed)
	return &student{trainer, t, p}, err
}

type student struct {
	*Trainer
	t *training
	p *plan.Plan
}

// Learn asks rounds of votes.
func (s *student) Learn(
	ctx context.Context, ask pipeline.Asker, rounds int, keep func() error, progress func(pipeline.Progress),
) error {
	released := s.p.Training
	if released.Mechanism.Kind == privacy.GNMax {
		released.Mechanism.Sigma = s.p.Released()
	}
	by := &asker{pipeline.Counter{Asker: ask, Scale: s.p.CountScale()}, s.t.teacherSpec(ask.Baseline()), released}
	return s.Run(ctx, by, min(s.p.Queries, rounds*s.p.PerRound), keep, progress)
}

// asker carries the questions over the wire.
type asker struct {
	pipeline.Counter
	teacher *conclavev1.TeacherSpec
	planned privacy.Planned // with the released noise
}

// Votes asks for a round of votes.
func (a *asker) Votes(ctx context.Context, round uint64, q *pipeline.TeacherQuestion) (*pipeline.VoteAnswer, error) {
	release, err := a.Ask(ctx, "", voteRound(round, a.teacher, q))
	if err != nil {
		return nil, err
	}
	answer, err := votesOf(release, len(q.Classes))
	if err != nil {
		return nil, err
	}
	answer.Noise = shareNoise(a.planned, float64(release.Teachers))
	return answer, nil
}

// shareNoise is the standard deviation of the noise on a query's share of n teachers: half the difference of
// two noisy counts over n. For a winner it is half the distance between its two values.
func shareNoise(p privacy.Planned, n float64) float64 {
	m := p.Mechanism
	switch {
	case p.Variant != privacy.Histogram:
		return 0.5
	case m.Kind == privacy.LNMax:
		return 1 / (m.Lambda * n) // a count's noise has variance 2/lambda^2
	case m.Kind == privacy.ConfidentGNMax:
		return m.Sigma2 / (math.Sqrt2 * n)
	}
	return m.Sigma / (math.Sqrt2 * n)
}

// voteRound is a round of votes as it is sent to nodes.
func voteRound(number uint64, teacher *conclavev1.TeacherSpec, q *pipeline.TeacherQuestion) *conclavev1.Round {
	r := question.Ask(runspec.Votes, &conclavev1.VoteQuestion{
		Teacher:  teacher,
		Training: pipeline.Tensor(q.Training, q.Width), TrainingClasses: pipeline.ClassIDs(q.TrainingClasses),
		Queries: pipeline.Tensor(q.Records, q.Width), QueryClasses: pipeline.ClassIDs(q.Classes),
		AnswerClasses: answerClasses,
	}, question.Shape{Votes: &question.Histogram{Queries: len(q.Classes), Classes: answerClasses}})
	r.Number = number
	return r
}

// votesOf reads a release of n queries. A teacher votes fake or real, so the
// difference of the two noisy counts over the teachers is 2 share - 1.
func votesOf(release *conclavev1.Release, n int) (*pipeline.VoteAnswer, error) {
	votes := release.GetVotes()
	if votes == nil || len(votes.Labels) != n ||
		(len(votes.Histogram) != 0 && len(votes.Histogram) != n*answerClasses) || release.Teachers == 0 {
		return nil, fmt.Errorf("the release of round %d does not match its %d queries", release.GetRound(), n)
	}
	a := &pipeline.VoteAnswer{Share: make([]float32, n), Answered: make([]bool, n), Paid: pipeline.PaidBy(release)}
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
			return nil, fmt.Errorf("the release of round %d has label %d of %d classes", release.GetRound(), label,
				answerClasses)
		}
	}
	return a, nil
}
