package pategan

import (
	"context"
	"testing"

	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/pipeline/embed/embedtest"
)

// embedded asks a crowd for votes, and for an embedding of its records.
type embedded struct {
	embedtest.Records
	*crowd
	answers map[uint64]*pipeline.VoteAnswer
}

func (o *embedded) ClassCounts(ctx context.Context, round uint64, classes int) (*pipeline.CountAnswer, error) {
	return o.Records.ClassCounts(ctx, round, classes)
}

// Votes are the first answer to a question: a crowd learns with each, and its noise goes on.
func (o *embedded) Votes(ctx context.Context, round uint64, q *pipeline.VoteQuestion) (*pipeline.VoteAnswer, error) {
	if a, again := o.answers[round]; again {
		o.crowd.asked = append(o.crowd.asked, q)
		return a, nil
	}
	a, err := o.crowd.Votes(ctx, round, q)
	o.answers[round] = a
	return a, err
}

func TestAStudentWithAStart(t *testing.T) {
	const labels = 48
	o := smallOptions()
	o.Student.GeneratorSteps = 5
	rounds := labels / o.Queries
	embedtest.Run(t, func() embedtest.Student[*pipeline.VoteQuestion] {
		of := newCrowd(t, o, 0.05)
		oracle := &embedded{embedtest.OfTeachers(t, testEncoder(t), of.real), of, map[uint64]*pipeline.VoteAnswer{}}
		return embedtest.Student[*pipeline.VoteQuestion]{
			Records: &oracle.Records,
			New: func() (embedtest.Trainer, *pipeline.Learned) {
				tr := testTrainer(t, o, 1)
				return tr, &tr.Learned
			},
			Asked: func() []*pipeline.VoteQuestion { return of.asked },
			Run: func(tr embedtest.Trainer, keep func() error) error {
				return tr.(*Trainer).Run(context.Background(), oracle, labels, keep, func(pipeline.Progress) {})
			},
		}
	}, rounds, rounds*o.Student.GeneratorSteps, o.Student.GeneratorSteps)
}
