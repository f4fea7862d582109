package main

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/conclave-dp/conclave/internal/nn/safetensors"
	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/pipeline/plan"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/partition"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// tenNumbers asks for one sum of ten numbers, and prints what is released. Its rows follow the ten
// numbers in one column, and nothing in the others.
var tenNumbers = pipeline.Pipeline{
	Name:    "tens",
	Options: pipeline.Defaults(func() options { return options{Quorum: 0.9} }),
	New: func(o pipeline.Options, p pipeline.Problem) pipeline.Training {
		return &training{o.(*options), p}
	},
	Asks:            []string{tens.Name},
	Kinds:           []question.Kind{tens},
	Model:           histograms,
	TablesOnly:      true,
	NoDiscriminator: "this pipeline asks for ten numbers and trains nothing",
	Words:           pipeline.Words{Answers: "ten numbers", Baseline: "noise alone"},
}

// options are the section `tens:` of a run.yaml.
type options struct {
	// Column is the place of the column among the encoded features.
	Column int `yaml:"column"`
	// Quorum is the share of the teachers without which the round does not count.
	Quorum float64 `yaml:"quorum"`
}

// Validate reports what cannot work.
func (o options) Validate() error {
	var errs []error
	if o.Column < 0 {
		errs = append(errs, fmt.Errorf("tens.column: %d is below 0", o.Column))
	}
	if !(o.Quorum > 0 && o.Quorum <= 1) {
		errs = append(errs, fmt.Errorf("tens.quorum: %v is not a share of the teachers, above 0 and at most 1",
			o.Quorum))
	}
	return errors.Join(errs...)
}

type training struct {
	o *options
	pipeline.Problem
}

func (t *training) Chosen() any { return *t.o }

func (t *training) Quorum() (share, deadline float64) { return t.o.Quorum, 60 }

// Plan spends the budget on one sum: the least Gaussian noise that it admits.
func (t *training) Plan(p *plan.Plan, budget privacy.Budget) error {
	sigma, err := privacy.GaussianSigma(budget, 1, p.Stages.Cost())
	if err != nil {
		return err
	}
	p.Queries, p.Rounds, p.PerRound = cells, 1, cells
	p.Training = privacy.Planned{Kind: tens.Name, Mechanism: budget.Event(privacy.Event{
		Kind: privacy.Gaussian, Sigma: sigma,
	})}
	return p.Drawable(bound)
}

func (t *training) round() *conclavev1.Round {
	return question.Ask(tens.Name, wrapperspb.UInt32(uint32(t.o.Column)), shape)
}

// Largest are the messages of the one round.
func (t *training) Largest(*plan.Plan, int) pipeline.Largest {
	r := t.round()
	r.Run = t.Run
	return pipeline.Largest{
		Round: r, RoundContent: "the number of a column",
		Answer: pipeline.LargestSum(t.Run, 0, cells, 1<<40), AnswerName: "ten numbers",
		AnswerContent: "the number of records in each part of the column's range; the aggregator sees these numbers, " +
			"and releases only their noisy sum over all sites",
	}
}

// Student makes one that has asked nothing.
func (t *training) Student(p *plan.Plan) (pipeline.Student, error) {
	return &student{t: t}, nil
}

// student has the state of a run, which is all that its checkpoint holds.
type student struct {
	t *training
	state
}

type state struct {
	Identity string `json:"identity"`
	pipeline.Learned
	// Records are the ten numbers that were released.
	Records [cells]float64 `json:"records"`
}

// Learn asks, unless the checkpoint has the answer, and prints it.
func (s *student) Learn(
	ctx context.Context, ask pipeline.Asker, rounds int, keep func() error, _ func(pipeline.Progress),
) error {
	if len(s.Receipts) > 0 || rounds == 0 {
		return nil
	}
	release, err := ask.Ask(ctx, "", s.t.round())
	if err != nil {
		return err
	}
	total := 0.0
	for i, v := range release.GetSum().GetValues() {
		n := float64(v) / bound
		fmt.Printf("%3d%% to %3d%% of the range: %7.1f records\n", 100*i/cells, 100*(i+1)/cells, n)
		s.Records[i], total = n, total+n
	}
	s.Took(pipeline.PaidBy(release))
	s.Counts = make([]float64, s.t.Classes)
	for c := range s.Counts {
		s.Counts[c] = total / float64(s.t.Classes) // nobody asked for their shares
	}
	return keep()
}

func (s *student) Rounds() int { return len(s.Receipts) }

// Model is what rows are drawn from.
func (s *student) Model(schema *partition.Schema) (pipeline.Model, error) {
	m := &model{schema: schema, encoder: s.t.Encoder, column: s.t.o.Column}
	for i, n := range s.Records {
		m.records[i] = float32(max(0, n))
	}
	return m, nil
}

func (s *student) Save(path, identity string) error {
	s.Identity = identity
	return pipeline.SaveCheckpoint(path, "tens", s.state, safetensors.New())
}

func (s *student) Restore(path, identity string) (bool, error) {
	var saved state
	set, err := pipeline.LoadCheckpoint(path, "tens", pipeline.AskAnew, &saved)
	if set == nil || err != nil {
		return false, err
	}
	if saved.Identity != identity {
		return false, pipeline.Misfit(path, errors.New("it belongs to another run; use another output folder"))
	}
	s.state = saved
	return true, nil
}
