package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/conclave-dp/conclave/internal/certificate"
	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/pipeline/plan"
	"github.com/conclave-dp/conclave/internal/pipelines"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/run/results"
	"github.com/conclave-dp/conclave/internal/runfile"
	"github.com/conclave-dp/conclave/internal/student"
	"github.com/conclave-dp/conclave/partition"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// LaterOptions say which stages follow a finished run, and what they may spend.
type LaterOptions struct {
	// From is the output folder of the finished run.
	From string
	// Run is the path of the run.yaml, whose options of stages, release and evaluate may have changed since; empty
	// for its old place.
	Run string
	// Post and Weights are the stages, as in a run.yaml.
	Post    []string
	Weights string
	// Epsilon is what the stages may spend of the dataset's remaining budget; 0 if they are free. Delta 0 means
	// that of the run.
	Epsilon, Delta float64
	// Name is the name of the stages' own run; empty for the finished run's name and the stage's.
	Name string
}

// Later are stages that follow a finished run, in a run of their own on the same dataset and
// ledger.
type Later struct {
	*Job
	// First is the finished run.
	First *Job
	from  string
	coin  bool
}

// NewLater finds the finished run, and everything that can be wrong with the stages, before
// anything is asked.
func NewLater(o LaterOptions) (*Later, error) {
	finished, err := results.ReadFinished(o.From)
	if err != nil {
		return nil, err
	}
	if len(finished.Certificate.Earlier) > 0 {
		return nil, fmt.Errorf("%s has stages of run %q; give the folder of that run, which has its generators",
			o.From, finished.Certificate.Earlier[0])
	}
	path := o.Run
	record, err := results.ReadRecord(o.From)
	if err == nil && record.Name != "" && record.Name != finished.Certificate.Run {
		return nil, fmt.Errorf("%s has free stages (%s) of run %q; give the folder of that run, which has its "+
			"generators", o.From, record.Name, finished.Certificate.Run)
	}
	if path == "" {
		if err != nil {
			return nil, fmt.Errorf("%s does not contain the path of its run.yaml (%w); give it with --run", o.From, err)
		}
		path = record.Run
	}
	spec, err := runfile.Load(path)
	if err != nil {
		return nil, err
	}
	if spec.Name != finished.Certificate.Run {
		return nil, fmt.Errorf("%s is for run %q, but %s has run %q; give the run.yaml of the finished run with --run",
			path, spec.Name, o.From, finished.Certificate.Run)
	}
	if schema, err := partition.LoadSchema(spec.Schema); err != nil {
		return nil, err
	} else if schema.SHA256 != finished.Certificate.SchemaSHA256 {
		return nil, fmt.Errorf("%s uses the schema %s, which is not that of the run in %s; give the run.yaml of the "+
			"finished run with --run, or restore its schema", path, spec.Schema, o.From)
	}
	// The run as it was executed; stages and later options may have changed since.
	first := runfile.DefaultSpec()
	first.Pipeline, first.Teachers = finished.Certificate.Pipeline, 0 // if the configuration names none
	if err := first.Parse(finished.Earlier.Config); err != nil {
		return nil, fmt.Errorf("%s: the configuration of the run in its report.json: %w", o.From, err)
	}
	first.Teachers = cmp.Or(first.Teachers, finished.Certificate.Teachers)
	first.Choose(nil) // its delta; the rest is known
	first.Resolve(path)
	if err := first.Validate(); err != nil {
		return nil, fmt.Errorf("%s: the configuration of the run in its report.json: %w", o.From, err)
	}
	first.Evaluate, first.Study, first.Agreed = spec.Evaluate, spec.Study, spec.Agreed
	job, err := Prepare(first)
	if err != nil {
		return nil, err
	}
	if job.Schema.SHA256 != finished.Certificate.SchemaSHA256 {
		return nil, fmt.Errorf("%s is not the schema of the finished run; restore it", spec.Schema)
	}
	l := &Later{First: job, from: o.From, coin: finished.Certificate.Votes == certificate.VotesCoin}
	// The run itself stays unchanged; the rest may have changed.
	now := first.Clone()
	for _, stage := range pipelines.Stages {
		now.Sections[stage.Name] = spec.Sections[stage.Name]
	}
	now.Release, now.Evaluate = spec.Release, spec.Evaluate
	now.Text = finished.Earlier.Config + laterText(o, path, spec.Text)
	l.Job, err = l.stages(now, job, o)
	return l, err
}

// laterText appends the stages' options to the run's configuration.
func laterText(o LaterOptions, path, text string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n# Then, by a command of its own: post: %v, weights: %q, epsilon %v, delta %v (0: that of the "+
		"run),\n# with the options of stages, release and evaluate of %s:\n", o.Post, o.Weights, o.Epsilon, o.Delta,
		filepath.Base(path))
	for line := range strings.Lines(text) {
		b.WriteString("#   " + line)
	}
	return b.String()
}

func (l *Later) stages(spec *runfile.Spec, first *Job, o LaterOptions) (*Job, error) {
	s := spec.Clone()
	s.Post, s.Weights = o.Post, o.Weights
	if s.Weights == "" {
		s.Weights = pipeline.NoWeights
	}
	stage := strings.Join(append(slices.Clone(s.Post), s.Weights), "-")
	stage = strings.TrimSuffix(stage, "-"+pipeline.NoWeights)
	if s.Name = o.Name; s.Name == "" {
		s.Name = spec.Name + "." + stage
	}
	if kept, keeps := s.Kept(); keeps && kept == 0 && s.NeedsDiscriminators() {
		return nil, fmt.Errorf("run %q had %s.student.keep: 0 and stored no discriminators; these stages need a run "+
			"that stores some", spec.Name, s.Pipeline)
	}
	for _, stage := range pipelines.Stages {
		if stage.Measure != nil { // what the run itself paid for concerns other rows
			s.Sections[stage.Name] = stage.Options()
		}
	}
	s.Privacy.Dataset = nil
	if err := s.Validate(); err != nil {
		return nil, fmt.Errorf("%s: %w", spec.Path, err)
	}
	if !(o.Epsilon >= 0 && o.Delta >= 0) || math.IsInf(o.Epsilon, 1) || o.Delta >= 1 {
		return nil, fmt.Errorf("what the stage may spend: epsilon %v and delta %v; give an epsilon above 0 and a "+
			"delta below 1, or leave them out", o.Epsilon, o.Delta)
	}
	if o.Delta > 0 {
		s.Privacy.Delta = o.Delta
	}
	paid := len(shares(s, first.Schema)) > 0
	switch {
	case paid && o.Epsilon == 0:
		return nil, fmt.Errorf("%s is not free; set with --epsilon what it may spend of the dataset's remaining "+
			"budget", stage)
	case !paid && o.Epsilon > 0 && !s.Release.Private:
		return nil, fmt.Errorf("%s uses real rows without noise, NOT PRIVATE, and no budget; leave out "+
			"--epsilon", stage)
	case !paid && o.Epsilon > 0:
		return nil, fmt.Errorf("%s costs nothing; leave out --epsilon", stage)
	case o.Epsilon > 0:
		s.Privacy.Epsilon = o.Epsilon
	}
	if _, err := privacy.NewBudget(s.Privacy.Epsilon, s.Privacy.Delta); err != nil {
		return nil, fmt.Errorf("what the stage may spend: %w", err)
	}
	if err := s.CheckStages(first.Schema); err != nil {
		return nil, err
	}
	j := &Job{Spec: s, Schema: first.Schema, Plan: &plan.Plan{Classes: first.Plan.Classes}, real: first.real}
	if !paid {
		return j, nil
	}
	// The whole budget is for this one stage.
	alone := s.Clone()
	for _, options := range alone.Sections {
		if shared, ok := options.(pipeline.Shared); ok {
			shared.TakeAll()
		}
	}
	var err error
	j.Plan.Stages, err = prices(alone, first.Schema, s.Privacy.Budget(privacy.FilterPLD))
	return j, err
}

// Coin reports whether the finished run was the baseline, which then also holds for the stages.
func (l *Later) Coin() bool { return l.coin }

// Free reports whether the stages cost nothing, so that no cluster is needed.
func (l *Later) Free() bool { return len(l.Plan.Stages) == 0 }

// Execute asks the questions of the stages and writes their files to o.Out. Free stages ask nothing, so o.Client
// may be nil.
func (l *Later) Execute(ctx context.Context, o Options) (*results.Result, error) {
	return executed(ctx, o, l.Spec.Name, l.execute)
}

func (l *Later) execute(ctx context.Context, o Options) (*results.Result, error) {
	o.Coin = l.coin
	trained, err := l.restore(ctx)
	if err != nil {
		return nil, err
	}
	model, err := trained.Model(l.Schema)
	if err != nil {
		return nil, err
	}
	of := learned{student: trained, model: model, notes: trained.Notes()}
	if _, err := l.session(of, o); err != nil {
		return nil, err
	}
	if err := results.MakeOutput(o.Out, l.Schema.Image, l.Spec.Release.Format); err != nil {
		return nil, err
	}
	if err := results.CheckRecord(o.Out, l.Spec.Name); err != nil {
		return nil, err
	}
	record := results.Record{Run: l.Spec.Path, Dataset: o.Dataset, Name: l.Spec.Name}
	if l.Free() {
		if err := results.WriteRecord(o.Out, record); err != nil {
			return nil, err
		}
		made, err := l.after(ctx, of, &asker{}, o)
		if err != nil {
			return nil, err
		}
		closed := func(context.Context, []byte) (results.Ended, error) { return results.EndedIn(l.from) }
		return l.publish(ctx, of, made, l.First.Spec.Name, results.Sealing{Close: closed}, o)
	}
	notes := *of.notes
	notes.Receipts, notes.Spent = nil, 0 // those of the stages' own run
	of.notes, of.earlier = &notes, []string{l.First.Spec.Name}
	opened, err := o.Client.OpenRun(ctx, l.runSpec(o.Dataset))
	if errors.Is(err, student.ErrRunExists) {
		return nil, fmt.Errorf("%w; give the stage's run another name with --name", err)
	} else if errors.Is(err, student.ErrStudy) {
		return nil, err
	} else if errors.Is(err, student.ErrOverBudget) || errors.Is(err, student.ErrRefused) {
		return nil, fmt.Errorf("%w; to leave budget for stages, set it before the run: privacy.dataset in the "+
			"run.yaml of a local run, or the dataset's budget at an aggregator", err)
	} else if err != nil {
		return nil, err
	}
	if opened.Closed {
		of.closed = opened.ManifestSha256
	}
	o.operator = opened.Aggregator
	// Not earlier: the folder of a refused run stays empty.
	if err := results.WriteRecord(o.Out, record); err != nil {
		return nil, err
	}
	ask := &asker{client: o.Client, run: l.Spec.Name, teachers: l.Spec.Teachers, coin: l.coin, plan: l.Plan}
	return l.finish(ctx, of, ask, o)
}

// restore reads the student of the finished run from its checkpoint.
func (l *Later) restore(ctx context.Context) (pipeline.Student, error) {
	s, plan := l.First.Spec, l.First.Plan
	learner, err := s.Training(l.Schema).Student(plan)
	if err != nil {
		return nil, err
	}
	if err := startWith(learner, s, l.Schema, plan, &asker{plan: plan}, func(int, int) {}); err != nil {
		return nil, err
	}
	path := results.CheckpointPath(l.from)
	restored, err := learner.Restore(path, identity(s, l.Schema, l.coin))
	if err != nil {
		return nil, err
	}
	if !restored {
		return nil, fmt.Errorf("%s is missing, and with it the student's state: %w; stages after a run need its "+
			"state", path, fs.ErrNotExist)
	}
	return learner, ctx.Err()
}

// runSpec is the spec of the stages' run at the aggregator.
func (l *Later) runSpec(dataset string) *conclavev1.RunSpec {
	spec := RunSpec(l.Plan, l.Spec, l.Schema, dataset, l.coin)
	spec.Filter = string(privacy.FilterPLD) // all of it is known in advance
	spec.Earlier = []string{l.First.Spec.Name}
	return spec
}
