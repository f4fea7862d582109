package run

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/pipeline/gpate"
	"github.com/conclave-dp/conclave/internal/report"
	"github.com/conclave-dp/conclave/internal/runfile"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/encode"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// gpateWork is a run of G-PATE.
type gpateWork struct{ s *Spec }

// options are the spec's with all that is left to be chosen.
func (w *gpateWork) options(e *encode.Encoder) (gpate.Options, error) {
	o := w.chosen(e)
	return o, o.CheckFor(e)
}

func (w *gpateWork) chosen(e *encode.Encoder) gpate.Options {
	return runfile.Section[gpate.Options](w.s).ChosenFor(e)
}

// teacherSpec is how the run's teachers learn and answer.
func (w *gpateWork) teacherSpec(schema *partition.Schema, classes int, coin bool) *conclavev1.TeacherSpec {
	e := encode.New(schema)
	o := w.chosen(e)
	return w.teachers(o.Teacher, o.Seen(e), classes, coin)
}

// teachers are those of the options, who see gradients of so many numbers.
func (w *gpateWork) teachers(o gpate.Teacher, seen, classes int, coin bool) *conclavev1.TeacherSpec {
	t := &conclavev1.TeacherSpec{
		Vote: conclavev1.TeacherSpec_VOTE_GRADIENT, Classes: uint32(classes), Hidden: uint32(o.Hidden),
		Steps: uint32(o.Steps), Batch: uint32(o.Batch), LearningRate: float32(o.Rate), WeightDecay: float32(o.Decay), Seed: w.s.Seed,
		Features: conclavev1.TeacherSpec_FEATURES_PLAIN,
	}
	switch o.Features {
	case "standard":
		t.Features = conclavev1.TeacherSpec_FEATURES_STANDARD
	case "cosines":
		t.Features, t.Cosines = conclavev1.TeacherSpec_FEATURES_COSINES, uint32(seen)
	}
	switch o.Model {
	case "hidden":
		t.Model = conclavev1.TeacherSpec_MODEL_HIDDEN
	case "convolution":
		t.Model = conclavev1.TeacherSpec_MODEL_CONVOLUTION
	case "energy":
		t.Model, t.Hidden = conclavev1.TeacherSpec_MODEL_ENERGY, 0
	default:
		t.Model, t.Hidden = conclavev1.TeacherSpec_MODEL_LOGISTIC, 0
	}
	t.Shared, t.Fresh = o.Networks == "one", o.Memory == "round"
	if coin {
		t.Vote = conclavev1.TeacherSpec_VOTE_COIN
	}
	return t
}

// asker makes the rounds of a run of these options.
func (w *gpateWork) asker(o gpate.Options, e *encode.Encoder) gradientAsker {
	return gradientAsker{
		sums: o.Answers == gpate.Sum, seen: o.Seen(e), directions: o.Directions, bins: o.Bins, clip: o.Clip, norm: o.Norm,
	}
}

func (w *gpateWork) largest(p *Plan, e *encode.Encoder, teachers int) largest {
	width := e.Width()
	o := w.chosen(e)
	class := []int{p.Classes - 1} // the one that takes the most bytes
	round := w.asker(o, e).round(w.s.Name, uint64(p.Rounds), w.teachers(o.Teacher, o.Seen(e), p.Classes, false), &pipeline.GradientQuestion{
		Width:    width,
		Training: make([]float32, o.Teacher.Training*width), TrainingClasses: slices.Repeat(class, o.Teacher.Training),
		Records: make([]float32, o.Records*width), Classes: slices.Repeat(class, o.Records), Seed: math.MaxUint64,
	})
	l := largest{
		round: round, roundContent: fmt.Sprintf("%d generated records to train on, %d whose gradients are asked for, %d numbers each; nobody's data", o.Teacher.Training, o.Records, width),
	}
	if p.Sums() {
		l.answerName = "gradients"
		l.answer = &conclavev1.WorkRequest{Attempt: math.MaxUint32, Message: &conclavev1.WorkRequest_Sum{Sum: &conclavev1.Sum{
			Run: w.s.Name, Round: uint64(p.Rounds), Values: slices.Repeat([]int64{int64(teachers) * gradientBound}, p.PerRound),
		}}}
		l.answerContent = fmt.Sprintf("%d numbers: the sum over the node's %d teachers of clipped gradients; the aggregator sees it, and releases the sum over all nodes with noise only", p.PerRound, teachers)
		return l
	}
	l.answerName, l.answersAClass = "votes", o.Bins
	l.answer = votesOfNode(round, teachers, p.PerRound, o.Bins)
	l.answerContent = fmt.Sprintf("a bin of %d per teacher and query, %d teachers x %d queries; the aggregator sees them, and releases sums over all teachers with noise only", o.Bins, teachers, p.PerRound)
	return l
}

func (w *gpateWork) student(e *encode.Encoder, p *Plan) (trainer, error) {
	o, err := w.options(e)
	if err != nil {
		return nil, err
	}
	t, err := gpate.New(*runfile.Section[gpate.Options](w.s), e, p.Classes, w.s.Seed)
	return &gpateTrainer{t, w.asker(o, e), p}, err
}

// gpateTrainer is its student.
type gpateTrainer struct {
	*gpate.Trainer
	asker gradientAsker
	p     *Plan
}

func (t *gpateTrainer) learn(ctx context.Context, ask *oracle, rounds int, keep func() error, progress func(pipeline.Progress)) error {
	return t.Run(ctx, &gradientOracle{ask, t.asker}, min(t.p.Rounds, rounds), keep, progress)
}

// shares are of votes of real or fake only.
func (t *gpateTrainer) shares() map[uint64]*report.Shares { return nil }
