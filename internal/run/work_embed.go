package run

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/pipeline/embed"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/report"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/encode"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// embedWork is a run of embedding matching.
type embedWork struct{ s *Spec }

func (w *embedWork) quorum() (share, deadline float64) {
	o := Section[embed.Options](w.s)
	return o.Quorum, o.Deadline
}

func (w *embedWork) optionsOf(schema *partition.Schema) any {
	return Section[embed.Options](w.s).ChosenFor(encode.New(schema), classesOf(schema), 0)
}

// teacherSpec: teachers have no models.
func (w *embedWork) teacherSpec(*partition.Schema, int, bool) *conclavev1.TeacherSpec { return nil }

// plan spends the budget on one sum.
func (w *embedWork) plan(schema *partition.Schema, budget privacy.Budget, stages Stages) (*Plan, error) {
	o := *Section[embed.Options](w.s)
	p := &Plan{Stages: stages, Classes: classesOf(schema)}
	sigma := o.Noise
	if most := float64(mostSigma) / leastBound; sigma > most {
		return nil, fmt.Errorf("embed.noise: %v is too much, and %.4g is the most that is drawn; lower it, or set it to 0 to have it chosen", sigma, most)
	}
	if sigma == 0 {
		var err error
		if sigma, err = privacy.GaussianSigma(budget, 1, stages.cost()); err != nil {
			return nil, err
		}
	}
	if err := p.beginWith(o, schema, sigma); err != nil {
		return nil, err
	}
	if _, err := budget.Admit(nil, p.others()); errors.Is(err, privacy.ErrOverBudget) {
		return nil, fmt.Errorf("embed.noise: %v is too little: %w; raise it, or set it to 0 to have it chosen", o.Noise, err)
	} else if err != nil {
		return nil, err
	}
	return p, nil
}

// beginWith has a run begin with an embedding of this noise.
func (p *Plan) beginWith(o embed.Options, schema *partition.Schema, sigma float64) error {
	e := encode.New(schema)
	o = o.ChosenFor(e, p.Classes, sigma)
	if err := o.CheckFor(e, p.Classes); err != nil {
		return err
	}
	q, err := o.Question(e, p.Classes)
	if err != nil {
		return err
	}
	p.Embedding, p.ClassShareEpsilon = &Embedding{Sigma: sigma, Entries: q.Entries}, 0
	if p.Embedding.bound() < leastBound {
		return fmt.Errorf("the sum of the embedding needs a noise multiplier of %.4g, and %.4g is the most that is drawn; raise privacy.epsilon or the share of the embedding",
			sigma, float64(mostSigma)/leastBound)
	}
	return nil
}

func (w *embedWork) largest(p *Plan, e *encode.Encoder, _ int) largest {
	q, err := Section[embed.Options](w.s).ChosenFor(e, p.Classes, p.Embedding.Sigma).Question(e, p.Classes)
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
	t, err := embed.New(*Section[embed.Options](w.s), e, p.Classes, w.s.Seed)
	return &embedTrainer{t}, err
}

// embedTrainer is its student.
type embedTrainer struct{ *embed.Trainer }

func (t *embedTrainer) learn(ctx context.Context, _ *oracle, _ int, keep func() error, _ func(pipeline.Progress)) error {
	return t.Run(ctx, keep)
}

// shares are of votes of real or fake only.
func (t *embedTrainer) shares() map[uint64]*report.Shares { return nil }
