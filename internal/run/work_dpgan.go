package run

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/pipeline/dpgan"
	"github.com/conclave-dp/conclave/internal/report"
	"github.com/conclave-dp/conclave/internal/runfile"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/encode"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// dpganWork is a run of DPGAN.
type dpganWork struct{ s *Spec }

func (w *dpganWork) chosen(e *encode.Encoder) dpgan.Options {
	return runfile.Section[dpgan.Options](w.s).ChosenFor(e)
}

// teacherSpec: teachers have no models in DPGAN.
func (w *dpganWork) teacherSpec(*partition.Schema, int, bool) *conclavev1.TeacherSpec { return nil }

// asker makes the rounds of a run of these options.
func (w *dpganWork) asker(o dpgan.Options, e *encode.Encoder, classes int, coin bool) *discriminatorAsker {
	spec := o.Spec(e, classes)
	loss := conclavev1.DiscriminatorSum_LOSS_WASSERSTEIN
	if o.Discriminator.Loss == dpgan.Logistic {
		loss = conclavev1.DiscriminatorSum_LOSS_LOGISTIC
	}
	return &discriminatorAsker{spec: described(spec), loss: loss, rate: o.Rate, clip: o.Clip, features: spec.Features, nothing: coin}
}

func (w *dpganWork) largest(p *Plan, e *encode.Encoder, _ int) largest {
	o := w.chosen(e)
	a := w.asker(o, e, p.Classes, false)
	q := &pipeline.DiscriminatorQuestion{Weights: make([]float32, p.PerRound)}
	if a.spec.Standard {
		units := p.Classes * e.Width()
		q.Mean, q.Scale = make([]float32, units), slices.Repeat([]float32{1}, units)
	}
	return largest{
		round:        a.round(w.s.Name, uint64(p.Rounds), q),
		roundContent: fmt.Sprintf("the %d weights of the discriminator; nobody's data", p.PerRound),
		answerName:   "gradient sums",
		answer: &conclavev1.WorkRequest{Attempt: math.MaxUint32, Message: &conclavev1.WorkRequest_Sum{Sum: &conclavev1.Sum{
			Run: w.s.Name, Round: uint64(p.Rounds), Values: slices.Repeat([]int64{1 << 24 * discriminatorBound}, p.PerRound),
		}}},
		answerContent: fmt.Sprintf("%d numbers: the sum, over a random sample of the site's privacy units, of clipped gradients; the aggregator sees it, and releases the sum over all nodes with noise only", p.PerRound),
	}
}

func (w *dpganWork) student(e *encode.Encoder, p *Plan) (trainer, error) {
	t, err := dpgan.New(*runfile.Section[dpgan.Options](w.s), e, p.Classes, w.s.Seed)
	return &dpganTrainer{t, w, e, p}, err
}

// dpganTrainer is its student.
type dpganTrainer struct {
	*dpgan.Trainer
	w *dpganWork
	e *encode.Encoder
	p *Plan
}

func (t *dpganTrainer) learn(ctx context.Context, ask *oracle, rounds int, keep func() error, progress func(pipeline.Progress)) error {
	o := t.w.chosen(t.e)
	return t.Run(ctx, &discriminatorOracle{ask, t.w.asker(o, t.e, t.p.Classes, ask.coin)}, min(t.p.Rounds, rounds), keep, progress)
}

// shares are of votes of real or fake only.
func (t *dpganTrainer) shares() map[uint64]*report.Shares { return nil }
