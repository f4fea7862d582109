package gpate

import (
	"fmt"

	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/internal/runspec"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// gradients makes rounds that ask for gradients, and reads their releases.
type gradients struct {
	sums             bool
	seen             int // the length of a gradient
	directions, bins int
	clip, norm       float64
}

// projection is nil if gradients are not projected.
func (a gradients) projection(q *pipeline.TeacherQuestion) *conclavev1.Projection {
	switch {
	case !a.sums:
		return &conclavev1.Projection{Directions: uint32(a.directions), Seed: q.Seed, Clip: float32(a.clip)}
	case a.directions < a.seen:
		return &conclavev1.Projection{Directions: uint32(a.directions), Seed: q.Seed}
	}
	return nil
}

// round is a round as it is sent to nodes.
func (a gradients) round(number uint64, teacher *conclavev1.TeacherSpec,
	q *pipeline.TeacherQuestion) (r *conclavev1.Round) {
	training, records := pipeline.Tensor(q.Training, q.Width), pipeline.Tensor(q.Records, q.Width)
	numbers := len(q.Classes) * a.directions
	if a.sums {
		r = question.Ask(runspec.GradientSums, &conclavev1.GradientSum{
			Teacher: teacher, Training: training, TrainingClasses: pipeline.ClassIDs(q.TrainingClasses),
			Queries:      records,
			QueryClasses: pipeline.ClassIDs(q.Classes), Projection: a.projection(q), Clip: a.norm, Bound: Bound,
		}, question.Shape{Sum: &question.Vector{
			Entries: numbers, Bound: Bound, Per: question.PerTeacher, Rate: 1,
		}})
		r.Number = number
		return r
	}
	r = question.Ask(runspec.GradientVotes, &conclavev1.VoteQuestion{
		Teacher: teacher, Training: training, TrainingClasses: pipeline.ClassIDs(q.TrainingClasses), Queries: records,
		QueryClasses: pipeline.ClassIDs(q.Classes), AnswerClasses: uint32(a.bins), Gradient: a.projection(q),
	}, question.Shape{Votes: &question.Histogram{Queries: numbers, Classes: a.bins}})
	r.Number = number
	return r
}

// read reads the release of a round of n numbers. noise is the noise of counts, or the noise multiplier of sums.
func (a gradients) read(release *conclavev1.Release, n int, noise float64) (*pipeline.GradientAnswer, error) {
	out := &pipeline.GradientAnswer{Paid: pipeline.PaidBy(release), Noise: noise}
	misfit := fmt.Errorf("the release of round %d does not match its %d gradients", release.GetRound(), n)
	if release.GetTeachers() == 0 {
		return nil, misfit
	}
	if a.sums {
		sum := release.GetSum()
		if sum == nil || len(sum.Values) != n || sum.Scale != Bound {
			return nil, misfit
		}
		teachers := float64(release.Teachers)
		out.Sum = make([]float32, n)
		for i, v := range sum.Values {
			out.Sum[i] = float32(float64(v) / (Bound * teachers))
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

// gradients makes the rounds of these options.
func (t *training) gradients(o Options) gradients {
	return gradients{
		sums: o.Answers == Sum, seen: o.Seen(t.Encoder), directions: o.Directions, bins: o.Bins, clip: o.Clip,
		norm: o.Norm,
	}
}
