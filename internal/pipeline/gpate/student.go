package gpate

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/pipeline/plan"
	"github.com/conclave-dp/conclave/internal/report/text"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// teacherSpec describes how the run's teachers learn and answer.
func (t *training) teacherSpec(baseline bool) *conclavev1.TeacherSpec {
	chosen := t.chosen()
	o, seen := chosen.Teacher, chosen.Seen(t.Encoder)
	spec := &conclavev1.TeacherSpec{
		Vote: conclavev1.TeacherSpec_VOTE_GRADIENT, Classes: uint32(t.Classes), Hidden: uint32(o.Hidden),
		Steps: uint32(o.Steps), Batch: uint32(o.Batch), LearningRate: float32(o.Rate), WeightDecay: float32(o.Decay),
		Seed:     t.Seed,
		Features: conclavev1.TeacherSpec_FEATURES_PLAIN,
	}
	switch o.Features {
	case "standard":
		spec.Features = conclavev1.TeacherSpec_FEATURES_STANDARD
	case "cosines":
		spec.Features, spec.Cosines = conclavev1.TeacherSpec_FEATURES_COSINES, uint32(seen)
	}
	switch o.Model {
	case "hidden":
		spec.Model = conclavev1.TeacherSpec_MODEL_HIDDEN
	case "convolution":
		spec.Model = conclavev1.TeacherSpec_MODEL_CONVOLUTION
	case "energy":
		spec.Model, spec.Hidden = conclavev1.TeacherSpec_MODEL_ENERGY, 0
	default:
		spec.Model, spec.Hidden = conclavev1.TeacherSpec_MODEL_LOGISTIC, 0
	}
	spec.Shared, spec.Fresh = o.Networks == "one", o.Memory == "round"
	if baseline {
		spec.Vote = conclavev1.TeacherSpec_VOTE_COIN
	}
	return spec
}

// Largest returns the messages of a round.
func (t *training) Largest(p *plan.Plan, teachers int) pipeline.Largest {
	width := t.Encoder.Width()
	o := t.chosen()
	class := []int{p.Classes - 1} // the class that takes the most bytes
	round := t.gradients(o).round(uint64(p.Rounds), t.teacherSpec(false), &pipeline.TeacherQuestion{
		Width:    width,
		Training: make([]float32, o.Teacher.Training*width), TrainingClasses: slices.Repeat(class, o.Teacher.Training),
		Records: make([]float32, o.Records*width), Classes: slices.Repeat(class, o.Records), Seed: math.MaxUint64,
	})
	round.Run = t.Run
	l := pipeline.Largest{
		Round: round,
		RoundContent: fmt.Sprintf("%d generated records to train on, %d generated records to compute gradients for, "+
			"%s each; no real records", o.Teacher.Training, o.Records, text.Several(width, "number")),
	}
	if p.Sums() {
		l.AnswerName = "gradients"
		l.Answer = pipeline.LargestSum(t.Run, uint64(p.Rounds), p.PerRound, int64(teachers)*Bound)
		l.AnswerContent = fmt.Sprintf("%d numbers: the sum of clipped gradients over the node's %d teachers; the "+
			"aggregator sees it, and releases only the noisy sum over all nodes", p.PerRound, teachers)
		return l
	}
	l.AnswerName, l.AnswerClasses = "votes", o.Bins
	l.Answer = pipeline.LargestVotes(round, teachers, p.PerRound, o.Bins)
	l.AnswerContent = fmt.Sprintf("one of %d bins per teacher and query, %d teachers x %d queries; the aggregator "+
		"sees these votes, and releases only noisy sums over all teachers", o.Bins, teachers, p.PerRound)
	return l
}

// Student returns an untrained student.
func (t *training) Student(p *plan.Plan) (pipeline.Student, error) {
	if err := t.chosen().CheckFor(t.Encoder); err != nil {
		return nil, err
	}
	trainer, err := New(t.o, t.Encoder, t.Classes, t.Seed)
	return &student{trainer, t, p}, err
}

type student struct {
	*Trainer
	t *training
	p *plan.Plan
}

// Learn asks rounds of gradients.
func (s *student) Learn(
	ctx context.Context, ask pipeline.Asker, rounds int, keep func() error, progress func(pipeline.Progress),
) error {
	by := &asker{
		pipeline.Counter{Asker: ask, Scale: s.p.CountScale()}, s.t.gradients(s.t.chosen()),
		s.t.teacherSpec(ask.Baseline()), s.p.Released(),
	}
	return s.Run(ctx, by, min(s.p.Rounds, rounds), keep, progress)
}

// asker carries the questions over the wire.
type asker struct {
	pipeline.Counter
	of      gradients
	teacher *conclavev1.TeacherSpec
	noise   float64
}

// Gradients asks for a round.
func (a *asker) Gradients(ctx context.Context, round uint64, q *pipeline.TeacherQuestion) (*pipeline.GradientAnswer,
	error) {
	release, err := a.Ask(ctx, "", a.of.round(round, a.teacher, q))
	if err != nil {
		return nil, err
	}
	return a.of.read(release, len(q.Classes)*a.of.directions, a.noise)
}
