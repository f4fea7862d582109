package dpgan

import (
	"context"
	"testing"

	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/pipeline/embed/embedtest"
)

// embedded asks for gradients of a pool, and for an embedding of its records.
type embedded struct {
	*embedtest.Records
	*pool
}

func (o embedded) ClassCounts(ctx context.Context, round uint64, classes int) (*pipeline.CountAnswer, error) {
	return o.Records.ClassCounts(ctx, round, classes)
}

func TestAStudentWithAStart(t *testing.T) {
	for _, name := range []string{"tilt", "climb", "images"} {
		c := variants(t)[name]
		c.o.Steps, c.o.Student.Steps = 8, 3
		t.Run(name, func(t *testing.T) {
			embedtest.Run(t, func() embedtest.Student[*pipeline.DiscriminatorQuestion] {
				p := newPool(t, c.o, c.e, c.record)
				p.noise = 3
				records := &embedtest.Records{T: t, Encoder: c.e, X: p.x, Classes: p.classes}
				return embedtest.Student[*pipeline.DiscriminatorQuestion]{
					Records: records,
					New: func() (embedtest.Trainer, *pipeline.Learned) {
						tr := mustNew(t, c.o, c.e, 1)
						return tr, &tr.Learned
					},
					Asked: func() []*pipeline.DiscriminatorQuestion { return p.asked },
					Run: func(tr embedtest.Trainer, keep func() error) error {
						return tr.(*Trainer).Run(context.Background(), embedded{records, p}, c.o.Steps, keep, unseen)
					},
				}
			}, c.o.Steps, c.o.Steps/c.o.Student.Every*c.o.Student.Steps, c.o.Student.Steps)
		})
	}
}
