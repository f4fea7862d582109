package teachers

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/conclave-dp/conclave/gnmax"
	"github.com/conclave-dp/conclave/internal/question"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// The kinds of questions to teachers. A run uses the same teachers for all of them.
var (
	// Votes asks every teacher whether generated records are real.
	Votes = question.Kind{
		Name: "votes", Read: question.Typed(readVotes), Draw: drawn[*conclavev1.VoteQuestion], Divides: true,
	}
	// GradientVotes asks every teacher for the bins of its gradients at generated records.
	GradientVotes = question.Kind{
		Name: "gradient-votes", Read: question.Typed(readGradientVotes), Draw: drawn[*conclavev1.VoteQuestion],
		Divides: true,
	}
	// GradientSum asks for the sum of the teachers' gradients at generated records.
	GradientSum = question.Kind{
		Name: "gradient-sums", Read: question.Typed(readGradientSum), Draw: drawn[*conclavev1.GradientSum],
		Divides: true,
	}
)

// answerClasses is the number of answers of a vote: 0 is fake, 1 is real.
const answerClasses = 2

func readVotes(p *question.Public, q *conclavev1.VoteQuestion) (*question.Checked, error) {
	a, err := readBatch(p, q)
	if err != nil {
		return nil, err
	}
	switch {
	case q.AnswerClasses != answerClasses:
		return nil, fmt.Errorf("a vote between %d classes; this node votes between 2, real and fake", q.AnswerClasses)
	case a.spec.Fresh:
		return nil, errFresh
	case !knownVote(a.vote):
		return nil, fmt.Errorf("vote rule %v does not say real or fake; use relative, calibrated or plain", a.vote)
	}
	shape := &question.Histogram{Queries: len(a.queries.classes), Classes: answerClasses}
	return &question.Checked{
		Shape:    question.Shape{Votes: shape},
		Baseline: a.coin(),
		Votes: func(s *question.Site, r question.Round) ([]byte, error) {
			return taught(s, r, a, func(l *lesson) ([]byte, error) {
				votes, err := l.votes(r.Number)
				return shape.Pack(votes), err
			})
		},
	}, nil
}

func readGradientVotes(p *question.Public, q *conclavev1.VoteQuestion) (*question.Checked, error) {
	to := q.GetGradient()
	if to.GetDirections() == 0 {
		return nil, errors.New("votes on gradients in no direction; use at least one")
	}
	g, err := readGradients(p, q, to, float64(to.Clip), int(q.AnswerClasses))
	if err != nil {
		return nil, err
	}
	shape := &question.Histogram{Queries: g.numbers(), Classes: int(q.AnswerClasses)}
	return &question.Checked{
		Shape:    question.Shape{Votes: shape},
		Baseline: g.coin(),
		Votes: func(s *question.Site, r question.Round) ([]byte, error) {
			return taught(s, r, &g.asked, func(l *lesson) ([]byte, error) {
				votes, err := l.gradientVotes(g, r.Number)
				return shape.Pack(votes), err
			})
		},
	}, nil
}

const (
	// maxSumEntries bounds a teacher's vector, as at aggregators.
	maxSumEntries = 1 << 17
	// shortest is a norm that every useful gradient exceeds: clipped to it, all vectors have the same length.
	shortest = 1e-20
)

func readGradientSum(p *question.Public, q *conclavev1.GradientSum) (*question.Checked, error) {
	g, err := readGradients(p, q, q.GetProjection(), 1, 2) // there are no bins in a sum
	if err != nil {
		return nil, err
	}
	if g.numbers() > maxSumEntries {
		return nil, fmt.Errorf("gradients of %d numbers, more than %d; ask about fewer records, or project them",
			g.numbers(), maxSumEntries)
	}
	clip := q.Clip
	if clip == 0 {
		clip = shortest
	}
	if g.fixed, err = gnmax.NewFixedPoint(clip, int64(q.Bound)); err != nil {
		return nil, err
	}
	return &question.Checked{
		Shape: question.Shape{Sum: &question.Vector{
			Entries: g.numbers(), Bound: int64(q.Bound), Per: question.PerTeacher, Rate: 1,
		}},
		Baseline: g.coin(),
		Sum: func(s *question.Site, r question.Round) ([]int64, error) {
			raw, err := taught(s, r, &g.asked, func(l *lesson) ([]byte, error) {
				sum, err := l.gradientSum(g, r.Number)
				if err != nil {
					return nil, err
				}
				return binary.Append(nil, binary.LittleEndian, sum)
			})
			if err != nil {
				return nil, err
			}
			sum := make([]int64, g.numbers())
			if n, err := binary.Decode(raw, binary.LittleEndian, sum); err != nil || n != len(raw) {
				return nil, fmt.Errorf("%w: the last answer has %d bytes: %w", question.ErrState, len(raw), err)
			}
			return sum, nil
		},
	}, nil
}
