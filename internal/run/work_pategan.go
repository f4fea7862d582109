package run

import (
	"context"
	"fmt"
	"slices"

	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/pipeline/pategan"
	"github.com/conclave-dp/conclave/internal/report"
	"github.com/conclave-dp/conclave/internal/runfile"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/encode"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// pateganWork is a run of PATE-GAN.
type pateganWork struct{ s *Spec }

// teacherSpec is how the run's teachers learn and vote.
func (w *pateganWork) teacherSpec(_ *partition.Schema, classes int, coin bool) *conclavev1.TeacherSpec {
	s, o := w.s, runfile.Section[pategan.Options](w.s).Teacher
	t := &conclavev1.TeacherSpec{
		Model: conclavev1.TeacherSpec_MODEL_LOGISTIC, Classes: uint32(classes),
		Steps: uint32(o.Steps), Batch: uint32(o.Batch), LearningRate: float32(o.Rate), WeightDecay: float32(o.Decay), Seed: s.Seed,
	}
	if t.Features = conclavev1.TeacherSpec_FEATURES_STANDARD; o.Features == "plain" {
		t.Features = conclavev1.TeacherSpec_FEATURES_PLAIN
	}
	if o.Model == "hidden" {
		t.Model, t.Hidden = conclavev1.TeacherSpec_MODEL_HIDDEN, uint32(o.Hidden)
	}
	switch {
	case coin:
		t.Vote = conclavev1.TeacherSpec_VOTE_COIN
	case runfile.Section[pategan.Options](s).Votes == pategan.Relative:
		t.Vote = conclavev1.TeacherSpec_VOTE_RELATIVE
	case runfile.Section[pategan.Options](s).Votes == pategan.Plain:
		t.Vote = conclavev1.TeacherSpec_VOTE_PLAIN
	default:
		t.Vote = conclavev1.TeacherSpec_VOTE_CALIBRATED
	}
	return t
}

func (w *pateganWork) largest(p *Plan, e *encode.Encoder, teachers int) largest {
	width := e.Width()
	queries, training := min(p.Queries, p.PerRound), runfile.Section[pategan.Options](w.s).Teacher.Training
	class := []int{p.Classes - 1} // the one that takes the most bytes
	round := voteRound(w.s.Name, uint64(p.Rounds), w.teacherSpec(nil, p.Classes, false), &pipeline.VoteQuestion{
		Width:    width,
		Training: make([]float32, training*width), TrainingClasses: slices.Repeat(class, training),
		Queries: make([]float32, queries*width), QueryClasses: slices.Repeat(class, queries),
	})
	return largest{
		round: round, roundContent: fmt.Sprintf("%d generated records to train on, %d to vote on, %d numbers each; nobody's data", training, queries, width),
		answerName: "votes", answer: votesOfNode(round, teachers, queries, answerClasses), answersAClass: answerClasses,
		answerContent: fmt.Sprintf("one bit per teacher and query, %d teachers x %d queries; the aggregator sees them, and releases sums over all teachers with noise only", teachers, queries),
	}
}

func (w *pateganWork) student(e *encode.Encoder, p *Plan) (trainer, error) {
	t, err := pategan.New(*runfile.Section[pategan.Options](w.s), e, p.Classes, w.s.Seed)
	return &pateganTrainer{t, w.s, p}, err
}

// pateganTrainer is its student.
type pateganTrainer struct {
	*pategan.Trainer
	s *Spec
	p *Plan
}

func (t *pateganTrainer) learn(ctx context.Context, ask *oracle, rounds int, keep func() error, progress func(pipeline.Progress)) error {
	return t.Run(ctx, ask, min(t.p.Queries, rounds*t.p.PerRound), keep, progress)
}

// shares summarizes the released shares that the student keeps. Where only
// winners were released there are none.
func (t *pateganTrainer) shares() map[uint64]*report.Shares {
	if runfile.Section[pategan.Options](t.s).Release != "histogram" {
		return nil
	}
	shares := map[uint64]*report.Shares{}
	for _, r := range t.Released() {
		shares[r.Round] = report.SharesOf(r.Shares, r.Noise)
	}
	return shares
}
