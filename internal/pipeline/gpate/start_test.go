package gpate

import (
	"context"
	"testing"

	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/pipeline/embed/embedtest"
)

// embedded asks for gradients of a crowd, and for an embedding of its records.
type embedded struct {
	embedtest.Records
	*crowd
}

func (o *embedded) ClassCounts(ctx context.Context, round uint64, classes int) (*pipeline.CountAnswer, error) {
	return o.Records.ClassCounts(ctx, round, classes)
}

func TestAStudentWithAStart(t *testing.T) {
	if testing.Short() {
		t.Skip("one thread of arithmetic, and slow with a race detector")
	}
	for _, name := range []string{"tilted sums", "moved winners", "images"} {
		c := variants(t)[name]
		c.o.Student.GeneratorSteps = 4
		t.Run(name, func(t *testing.T) {
			embedtest.Run(t, func() embedtest.Student[*pipeline.GradientQuestion] {
				of := newCrowd(t, c.o, c.e, 10, c.record)
				of.models = freshModels(t, of) // answers depend on their question alone
				oracle := &embedded{embedtest.OfTeachers(t, c.e, of.real), of}
				return embedtest.Student[*pipeline.GradientQuestion]{
					Records: &oracle.Records,
					New: func() (embedtest.Trainer, *pipeline.Learned) {
						tr := mustNew(t, c.o, c.e, 1)
						return tr, &tr.Learned
					},
					Asked: func() []*pipeline.GradientQuestion { return of.asked },
					Run: func(tr embedtest.Trainer, keep func() error) error {
						return tr.(*Trainer).Run(context.Background(), oracle, c.o.Rounds, keep, unseen)
					},
				}
			}, c.o.Rounds, c.o.Rounds*c.o.Student.GeneratorSteps, c.o.Student.GeneratorSteps)
		})
	}
}
