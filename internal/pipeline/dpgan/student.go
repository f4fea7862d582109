package dpgan

import (
	"context"
	"fmt"
	"slices"

	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/pipeline/plan"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// gradients returns the asker that makes the rounds of a run.
func (t *training) gradients(baseline bool) *pipeline.GradientAsker {
	o := t.chosen()
	loss := conclavev1.DiscriminatorSum_LOSS_WASSERSTEIN
	if o.Discriminator.Loss == Logistic {
		loss = conclavev1.DiscriminatorSum_LOSS_LOGISTIC
	}
	return &pipeline.GradientAsker{
		Spec: o.Spec(t.Encoder, t.Classes), Loss: loss, Rate: o.Rate, Clip: o.Clip, Nothing: baseline,
	}
}

// Largest returns the messages of a round.
func (t *training) Largest(p *plan.Plan, _ int) pipeline.Largest {
	by := t.gradients(false)
	q := &pipeline.DiscriminatorQuestion{Weights: make([]float32, p.PerRound)}
	if by.Spec.Standard {
		units := p.Classes * t.Encoder.Width()
		q.Mean, q.Scale = make([]float32, units), slices.Repeat([]float32{1}, units)
	}
	round := by.Round(uint64(p.Rounds), q)
	round.Run = t.Run
	return pipeline.Largest{
		Round:        round,
		RoundContent: fmt.Sprintf("the %d weights of the discriminator; no records", p.PerRound),
		Answer:       pipeline.LargestSum(t.Run, uint64(p.Rounds), p.PerRound, 1<<24*pipeline.DiscriminatorBound),
		AnswerName:   "gradient sums",
		AnswerContent: fmt.Sprintf("%d numbers: the sum of clipped gradients over a random sample of the site's "+
			"privacy units; the aggregator sees it, and releases only the noisy sum over all nodes", p.PerRound),
	}
}

// Student returns an untrained student.
func (t *training) Student(p *plan.Plan) (pipeline.Student, error) {
	trainer, err := New(t.o, t.Encoder, t.Classes, t.Seed)
	return &student{trainer, t, p}, err
}

type student struct {
	*Trainer
	t *training
	p *plan.Plan
}

// Learn asks a round for each step.
func (s *student) Learn(
	ctx context.Context, ask pipeline.Asker, rounds int, keep func() error, progress func(pipeline.Progress),
) error {
	by := &asker{
		pipeline.Counter{Asker: ask, Scale: s.p.CountScale()}, s.t.gradients(ask.Baseline()), s.p.Released(),
	}
	return s.Run(ctx, by, min(s.p.Rounds, rounds), keep, progress)
}

// asker sends the questions over the wire.
type asker struct {
	pipeline.Counter
	of         *pipeline.GradientAsker
	multiplier float64
}

// Discriminator asks for a round.
func (a *asker) Discriminator(
	ctx context.Context, round uint64, q *pipeline.DiscriminatorQuestion,
) (*pipeline.DiscriminatorAnswer, error) {
	release, err := a.Ask(ctx, "", a.of.Round(round, q))
	if err != nil {
		return nil, err
	}
	return a.of.Read(release, len(q.Weights), a.multiplier, a.Teachers())
}
