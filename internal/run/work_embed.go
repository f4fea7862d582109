package run

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/pipeline/embed"
	"github.com/conclave-dp/conclave/internal/report"
	"github.com/conclave-dp/conclave/internal/runfile"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/encode"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// embedWork is a run of embedding matching.
type embedWork struct{ s *Spec }

// teacherSpec: teachers have no models.
func (w *embedWork) teacherSpec(*partition.Schema, int, bool) *conclavev1.TeacherSpec { return nil }

func (w *embedWork) largest(p *Plan, e *encode.Encoder, _ int) largest {
	q, err := runfile.Section[embed.Options](w.s).ChosenFor(e, p.Classes, p.Embedding.Sigma).Question(e, p.Classes)
	if err != nil {
		q = &embed.Question{} // the plan was made of the same options
	}
	return largest{
		round:        embeddingRound(w.s.Name, 0, q, p.Embedding.bound(), false),
		roundContent: "the names of public features; nobody's data",
		answerName:   "embedding sum",
		answer: &conclavev1.WorkRequest{Attempt: math.MaxUint32, Message: &conclavev1.WorkRequest_Sum{Sum: &conclavev1.Sum{
			Run: w.s.Name, Values: slices.Repeat([]int64{1 << 24 * p.Embedding.bound()}, p.Embedding.Entries),
		}}},
		answerContent: embeddingContent(p.Embedding),
	}
}

func embeddingContent(e *Embedding) string {
	return fmt.Sprintf("%d numbers: the sum of public features over the site's privacy units; the aggregator sees it, and releases the sum over all nodes with noise only", e.Entries)
}

func (w *embedWork) student(e *encode.Encoder, p *Plan) (trainer, error) {
	t, err := embed.New(*runfile.Section[embed.Options](w.s), e, p.Classes, w.s.Seed)
	return &embedTrainer{t}, err
}

// embedTrainer is its student.
type embedTrainer struct{ *embed.Trainer }

func (t *embedTrainer) learn(ctx context.Context, _ *oracle, _ int, keep func() error, _ func(pipeline.Progress)) error {
	return t.Run(ctx, keep)
}

// shares are of votes of real or fake only.
func (t *embedTrainer) shares() map[uint64]*report.Shares { return nil }
