package run

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/pipeline/dpgan"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/report"
	"github.com/conclave-dp/conclave/internal/runspec"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/encode"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// dpganWork is a run of DPGAN.
type dpganWork struct{ s *Spec }

func (w *dpganWork) quorum() (share, deadline float64) {
	o := Section[dpgan.Options](w.s)
	return o.Quorum, o.Deadline
}

func (w *dpganWork) chosen(e *encode.Encoder) dpgan.Options {
	return Section[dpgan.Options](w.s).ChosenFor(e)
}

func (w *dpganWork) optionsOf(schema *partition.Schema) any {
	return w.chosen(encode.New(schema))
}

// teacherSpec: teachers have no models in DPGAN.
func (w *dpganWork) teacherSpec(*partition.Schema, int, bool) *conclavev1.TeacherSpec { return nil }

// plan prices a sum for each step of the discriminator. All steps are planned before the
// first, and the budget is charged by the privacy loss of the whole plan.
func (w *dpganWork) plan(schema *partition.Schema, budget privacy.Budget, stages Stages) (*Plan, error) {
	e, classes := encode.New(schema), classesOf(schema)
	o := w.chosen(e)
	if err := o.CheckFor(e, classes); err != nil {
		return nil, err
	}
	p := &Plan{Stages: stages, Rounds: o.Steps, PerRound: o.Spec(e, classes).Parameters(), ClassShareEpsilon: o.ClassEpsilon, Classes: classes}
	p.Queries = p.Rounds * p.PerRound
	if err := w.s.warm(p, schema, budget); err != nil {
		return nil, err
	}
	p.Training = privacy.Planned{Kind: runspec.Discriminator, Mechanism: privacy.Event{Kind: privacy.SubsampledGaussian, NoiseMultiplier: o.Noise, Rate: o.Rate}}
	budget.Filter = privacy.FilterPLD
	if o.Rate*float64(p.Rounds) <= budget.Delta {
		return nil, fmt.Errorf("dpgan.rate: %v over %d steps takes a unit with a probability below privacy.delta %v, which would be all of its protection; raise rate or steps", o.Rate, p.Rounds, budget.Delta)
	}
	var err error
	if o.Noise == 0 {
		p.Training.Mechanism.NoiseMultiplier, err = p.sampledNoise(budget)
	}
	first, share := "dpgan.class_epsilon", o.ClassEpsilon
	if p.Embedding != nil {
		first, share = "warm_start.embed", w.s.warmShare(schema)
	}
	if errors.Is(err, privacy.ErrOverBudget) {
		return nil, p.noRoom(w.s, schema, "dpgan.class_epsilon", o.ClassEpsilon, fmt.Sprintf("%d steps", p.Rounds))
	}
	if err != nil {
		return nil, fmt.Errorf("plan %d steps at rate %v: %w", p.Rounds, o.Rate, err)
	}
	if most := float64(mostSigma) / discriminatorBound; p.multiplier() > most {
		return nil, fmt.Errorf("dpgan: %d steps at rate %v need a noise multiplier of %.4g, and %.4g is the most that is drawn; lower %s (%v of privacy.epsilon %v) or dpgan.steps, use a smaller dpgan.rate, or raise privacy.epsilon",
			p.Rounds, o.Rate, p.multiplier(), most, first, share, budget.Epsilon)
	}
	if err := p.checkFeasible(priced{
		shareField: "dpgan.class_epsilon", share: o.ClassEpsilon, noiseField: "dpgan.noise", noise: o.Noise, what: "steps",
	}, budget); err != nil || o.Noise == 0 {
		return p, err
	}
	if _, err := p.Planned().Check(budget); err != nil {
		return nil, fmt.Errorf("dpgan.noise: %v is too little for %d steps at rate %v: %w; raise it, or set it to 0 to have it chosen", o.Noise, p.Rounds, o.Rate, err)
	}
	return p, nil
}

// sampledNoise is the least multiplier with which the whole plan fits the budget. Where all
// units are in every sum and the default filter of datasets wants hardly more, it is what that
// one wants, so that the run fits a dataset of the same budget.
func (p *Plan) sampledNoise(budget privacy.Budget) (float64, error) {
	rate, rounds := p.Training.Mechanism.Rate, int64(p.Rounds)
	least, err := privacy.SampledSigma(budget, rate, rounds, p.others())
	if err != nil || rate < 1 {
		return least, err
	}
	const hardly = 1.002
	budget.Filter = privacy.FilterGDP
	if gdp, err := privacy.GaussianSigma(budget, rounds, p.others()); err == nil && gdp <= hardly*least {
		return max(least, gdp), nil
	}
	return least, nil
}

// mostSigma is the largest noise that package gnmax draws, in fixed-point steps.
const mostSigma = 1 << 29

// discriminatorBound is the fixed-point unit of a unit's gradient.
const discriminatorBound = 1 << 16

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
	t, err := dpgan.New(*Section[dpgan.Options](w.s), e, p.Classes, w.s.Seed)
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
