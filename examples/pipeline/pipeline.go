package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/pipeline/plan"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/question"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// tenNumbers asks for one sum of ten numbers, and prints what is released. Its rows are those of
// a generator that has learned nothing: what to learn from the numbers is another pipeline's.
var tenNumbers = pipeline.Pipeline{
	Name:    "tens",
	Options: pipeline.Defaults(func() options { return options{Quorum: 0.9} }),
	New: func(o pipeline.Options, p pipeline.Problem) pipeline.Training {
		return &training{o.(*options), p}
	},
	Asks:            []string{tens.Name},
	Kinds:           []question.Kind{tens},
	TablesOnly:      true,
	NoDiscriminator: "it asks for ten numbers and trains nothing",
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
		errs = append(errs, fmt.Errorf("tens.quorum: %v is no share of the teachers, above 0 and at most 1", o.Quorum))
	}
	return errors.Join(errs...)
}

// training is what the pipeline does for one run.
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
	p.Training = privacy.Planned{Kind: tens.Name, Mechanism: privacy.Event{
		Kind: privacy.Gaussian, Sigma: sigma, Sensitivity: 1,
	}}
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
		AnswerContent: "how many records are in each part of the column's range; the aggregator sees them, and " +
			"releases their sum over all sites with noise only",
	}
}

// Student makes one that has asked nothing.
func (t *training) Student(p *plan.Plan) (pipeline.Student, error) {
	s := &student{t: t, source: rand.NewPCG(t.Seed, 10)} // its draws protect nothing
	g, err := pipeline.NewGenerator(t.Encoder,
		pipeline.GeneratorSpec{Noise: 4, Hidden: 8, Layers: 1, Classes: t.Classes}, rand.New(s.source))
	if err != nil {
		return nil, err
	}
	s.learner = pipeline.NewLearner(g, 0.001)
	return s, nil
}

// student is the state of a run.
type student struct {
	pipeline.Learned
	t       *training
	source  *rand.PCG
	learner *pipeline.Learner
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
		total += n
	}
	s.Took(release.GetLedgerHash(), int(release.GetTeachers()), release.GetEpsilonSpent())
	s.Counts = make([]float64, s.t.Classes)
	for c := range s.Counts {
		s.Counts[c] = total / float64(s.t.Classes) // nobody asked for their shares
	}
	return keep()
}

func (s *student) StartWith(pipeline.Start) {} // there is none

func (s *student) Rounds() int { return len(s.Receipts) }

func (s *student) Generator() *pipeline.Generator { return s.learner.Generator }

func (s *student) Save(path, identity string) error {
	c, set, err := pipeline.NewCheckpoint(identity, s.source, s.learner, nil, s.Learned, 0)
	if err != nil {
		return err
	}
	return pipeline.SaveCheckpoint(path, "tens", c, set)
}

func (s *student) Restore(path, identity string) (bool, error) {
	var c pipeline.Checkpoint
	set, err := pipeline.LoadCheckpoint(path, "tens", pipeline.AskAnew, &c)
	if set == nil || err != nil {
		return false, err
	}
	if err := c.Restore(path, identity, set, s.source, s.learner, nil, s.t.Classes); err != nil {
		return false, err
	}
	s.Learned = c.Learned
	return true, nil
}
