package run

import (
	"context"
	"fmt"
	"math"

	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/internal/runspec"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// gradientAsker makes rounds that ask for gradients, and reads their releases.
type gradientAsker struct {
	sums             bool
	seen             int // the length of a gradient
	directions, bins int
	clip, norm       float64
}

// projection is nil where gradients are asked for as they are.
func (a gradientAsker) projection(q *pipeline.GradientQuestion) *conclavev1.Projection {
	switch {
	case !a.sums:
		return &conclavev1.Projection{Directions: uint32(a.directions), Seed: q.Seed, Clip: float32(a.clip)}
	case a.directions < a.seen:
		return &conclavev1.Projection{Directions: uint32(a.directions), Seed: q.Seed}
	}
	return nil
}

// round is a round as nodes are sent it.
func (a gradientAsker) round(run string, number uint64, teacher *conclavev1.TeacherSpec, q *pipeline.GradientQuestion) *conclavev1.Round {
	training, records := tensor(q.Training, q.Width), tensor(q.Records, q.Width)
	numbers := len(q.Classes) * a.directions
	if a.sums {
		return roundOf(run, number, runspec.GradientSums, &conclavev1.GradientSum{
			Teacher: teacher, Training: training, TrainingClasses: classIDs(q.TrainingClasses), Queries: records,
			QueryClasses: classIDs(q.Classes), Projection: a.projection(q), Clip: a.norm, Bound: gradientBound,
		}, question.Shape{Sum: &question.Vector{
			Entries: numbers, Bound: gradientBound, Per: question.PerTeacher, Rate: 1,
		}})
	}
	return roundOf(run, number, runspec.GradientVotes, &conclavev1.VoteQuestion{
		Teacher: teacher, Training: training, TrainingClasses: classIDs(q.TrainingClasses), Queries: records,
		QueryClasses: classIDs(q.Classes), AnswerClasses: uint32(a.bins), Gradient: a.projection(q),
	}, question.Shape{Votes: &question.Histogram{Queries: numbers, Classes: a.bins}})
}

// read reads the release of a round of n numbers. Noise is that of counts, or the noise
// multiplier of sums.
func (a gradientAsker) read(release *conclavev1.Release, n int, noise float64) (*pipeline.GradientAnswer, error) {
	out := &pipeline.GradientAnswer{
		Receipt: release.GetLedgerHash(), Teachers: int(release.GetTeachers()), EpsilonSpent: release.GetEpsilonSpent(), Noise: noise,
	}
	misfit := fmt.Errorf("the release of round %d does not fit its %d gradients", release.GetRound(), n)
	if release.GetTeachers() == 0 {
		return nil, misfit
	}
	if a.sums {
		sum := release.GetSum()
		if sum == nil || len(sum.Values) != n || sum.Scale != gradientBound {
			return nil, misfit
		}
		teachers := float64(release.Teachers)
		out.Sum = make([]float32, n)
		for i, v := range sum.Values {
			out.Sum[i] = float32(float64(v) / (gradientBound * teachers))
		}
		out.Noise = 2 * noise / teachers // the sum moves by up to twice the bound
		return out, nil
	}
	votes := release.GetVotes()
	if votes == nil || len(votes.Labels) != n || (len(votes.Histogram) != 0 && len(votes.Histogram) != n*a.bins) {
		return nil, misfit
	}
	for _, label := range votes.Labels {
		if int(label) >= a.bins {
			return nil, misfit
		}
		out.Winners = append(out.Winners, int(max(label, -1)))
	}
	for _, count := range votes.Histogram {
		out.Histogram = append(out.Histogram, float64(count))
	}
	return out, nil
}

// gradientOracle carries the questions of G-PATE over the wire.
type gradientOracle struct {
	*oracle
	asker gradientAsker
}

// Gradients asks a round.
func (o *gradientOracle) Gradients(ctx context.Context, round uint64, q *pipeline.GradientQuestion) (*pipeline.GradientAnswer, error) {
	release, err := o.ask(ctx, "", o.asker.round(o.run, round, o.teacher, q))
	if err != nil {
		return nil, err
	}
	return o.asker.read(release, len(q.Classes)*o.asker.directions, o.plan.noise())
}

// votesOfNode is the largest answer to a round of votes.
func votesOfNode(round *conclavev1.Round, teachers, queries, classes int) *conclavev1.WorkRequest {
	bits := 1
	for 1<<bits < classes {
		bits *= 2
	}
	return &conclavev1.WorkRequest{Attempt: math.MaxUint32, Message: &conclavev1.WorkRequest_Votes{Votes: &conclavev1.Votes{
		Run: round.Run, Round: round.Number, Teachers: uint32(teachers), Queries: uint32(queries),
		Packed: make([]byte, teachers*((queries*bits+7)/8)),
	}}}
}
