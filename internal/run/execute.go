package run

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"go.uber.org/zap"

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

// Options say where and how a run is executed.
type Options struct {
	Client *student.Client
	// Dataset names the dataset at the aggregator.
	Dataset string
	// Out is the folder for the results and the checkpoint.
	Out string
	// Coin replaces votes with coin flips, the baseline. Aggregators refuse it outside local runs.
	Coin bool
	// Log adds the field "run" to each line.
	Log *zap.Logger
	// Watch is called with the run's status. May be nil.
	Watch func(Status)
	// Warn is called before anything is asked, with warnings about the run. If it is nil, they are logged.
	Warn func(sentence string)
	// Notes are more such sentences, from the caller.
	Notes []string

	operator string // of the aggregator, once it has answered
}

// Status is the progress of a run.
type Status struct {
	// Round is the number of rounds that are done, of Rounds. Of says what is counted if these are not rounds.
	Round, Rounds         int
	Of                    string
	EpsilonSpent, Epsilon float64
	// Waiting says what the run waits for; it is empty while the run advances. Part is the progress of the wait.
	Waiting, Part string
	// Halted says that the run cannot advance until it gets what it waits for.
	Halted bool
}

// Job is a spec with everything that it needs from files. Making one finds the user's mistakes before a cluster is
// asked.
type Job struct {
	Spec   *runfile.Spec
	Schema *partition.Schema
	Plan   *plan.Plan
	// real are the rows the report compares with. NOT PRIVATE.
	real results.Real
}

// Prepare reads the schema and the real rows for the report, and plans what the
// budget buys.
func Prepare(s *runfile.Spec) (*Job, error) {
	schema, err := s.LoadSchema()
	if err != nil {
		return nil, err
	}
	plan, err := NewPlan(s, schema)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.Path, err)
	}
	if err := s.CheckStudy(schema, stagesOf(plan)); err != nil {
		return nil, err
	}
	real, err := results.LoadReal(s.Evaluate, schema)
	if err != nil {
		return nil, err
	}
	return &Job{Spec: s, Schema: schema, Plan: plan, real: real}, nil
}

// CompareWith sets held-out rows for the report, if the run names no other test rows.
func (j *Job) CompareWith(h results.HeldOut) {
	if j.real.Test == nil {
		j.real.Test, j.real.Train, j.real.HeldOut = h.Test, h.Train, h.Share
	}
}

// Round is the largest round of the job, without records, for nodes to check.
func (j *Job) Round() *conclavev1.Round {
	return j.Spec.Training(j.Schema).Largest(j.Plan, j.Spec.Teachers).Round
}

// ErrStopped says that the caller's context ended before the run did.
var ErrStopped = errors.New("stopped; start it again with the same configuration and output folder to continue from " +
	"its checkpoint; releases are not charged again")

// Execute prepares the spec and runs it; see [Job.Execute].
func Execute(ctx context.Context, s *runfile.Spec, o Options) (*results.Result, error) {
	j, err := Prepare(s)
	if err != nil {
		return nil, err
	}
	return j.Execute(ctx, o)
}

// Execute runs the job against an aggregator and writes its files. An interrupted run resumes from its checkpoint;
// repeated questions cost nothing. If ctx ends first, the error matches [ErrStopped].
func (j *Job) Execute(ctx context.Context, o Options) (*results.Result, error) {
	return executed(ctx, o, j.Spec.Name, j.execute)
}

// executed applies defaults, executes, and reports a requested end as such.
func executed(ctx context.Context, o Options, name string,
	execute func(context.Context, Options) (*results.Result, error)) (*results.Result, error) {
	if o.Watch == nil {
		o.Watch = func(Status) {}
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	o.Log = o.Log.With(zap.String("run", name))
	if o.Warn == nil {
		o.Warn = func(sentence string) { o.Log.Warn("about the run", zap.String("warning", sentence)) }
	}
	result, err := execute(ctx, o)
	if err != nil && ctx.Err() != nil {
		return nil, fmt.Errorf("%w (%w)", ErrStopped, ctx.Err())
	}
	return result, err
}

func (j *Job) execute(ctx context.Context, o Options) (*results.Result, error) {
	if err := j.Spec.CheckDataset(o.Dataset); err != nil {
		return nil, err
	}
	if err := results.MakeOutput(o.Out, j.Schema.Image, j.Spec.Release.Format); err != nil {
		return nil, err
	}
	if err := results.WriteRecord(o.Out,
		results.Record{Run: j.Spec.Path, Dataset: o.Dataset, Name: j.Spec.Name}); err != nil {
		return nil, err
	}
	for _, sentence := range slices.Concat(j.real.Warnings, j.Spec.Warnings(j.Schema), o.Notes) {
		o.Warn(sentence)
	}
	opened, err := o.Client.OpenRun(ctx, RunSpec(j.Plan, j.Spec, j.Schema, o.Dataset, o.Coin))
	if err != nil {
		return nil, err
	}
	o.operator = opened.Aggregator
	o.Log.Info("run open", zap.String("aggregator", opened.Aggregator),
		zap.Int("queries", j.Plan.Queries), zap.Int("rounds", j.Plan.Rounds), zap.Uint64("released", opened.Rounds))

	trained, ask, err := j.train(ctx, opened, o)
	if err != nil {
		return nil, err
	}
	model, err := trained.Model(j.Schema)
	if err != nil {
		return nil, err
	}
	of := learned{student: trained, model: model, notes: trained.Notes()}
	if opened.Closed {
		of.closed = opened.ManifestSha256
	}
	return j.finish(ctx, of, ask, o)
}

// train lets the pipeline learn until its questions are asked or the budget is used.
func (j *Job) train(ctx context.Context, opened *conclavev1.OpenRunResponse, o Options) (pipeline.Student, *asker,
	error) {
	s, schema, plan := j.Spec, j.Schema, j.Plan
	learner, err := s.Training(schema).Student(plan)
	if err != nil {
		return nil, nil, err
	}
	first := len(plan.First()) // rounds before those of the training
	status := Status{Epsilon: s.Privacy.Epsilon, EpsilonSpent: opened.EpsilonSpent}
	if plan.Rounds > 0 {
		status.Rounds = first + plan.Rounds
	}
	ask := &asker{
		client: o.Client, run: s.Name, teachers: s.Teachers, coin: o.Coin, plan: plan,
		waiting: func(p *conclavev1.Progress) {
			waiting := status
			if plan.Rounds == 0 && !p.WaitingForQuorum {
				return // a single round takes too little time for a line
			}
			if plan.Rounds == 0 {
				of := startOf(s)
				waiting.Of, waiting.Rounds = "step", of.Warm.Steps(s.Sections[of.Name], s.Problem(schema))
			}
			o.Watch(waiting.waitingFor(p))
		},
	}
	err = startWith(learner, s, schema, plan, ask, func(done, steps int) {
		status.EpsilonSpent = learner.Notes().Spent
		if plan.Rounds == 0 { // there is nothing else to show
			status.Round, status.Rounds, status.Of = done, steps, "step"
			o.Watch(status)
			return
		}
		status.Round = first
		fitting := status
		fitting.Waiting, fitting.Part = "fitting the generator", fmt.Sprintf("step %d of %d", done, steps)
		o.Watch(fitting)
	})
	if err != nil {
		return nil, nil, err
	}
	checkpoint, identity := results.CheckpointPath(o.Out), identity(s, schema, o.Coin)
	restored, err := learner.Restore(checkpoint, identity)
	if err != nil {
		return nil, nil, err
	}
	if restored {
		o.Log.Info("continuing from the checkpoint", zap.String("file", checkpoint))
		lines, err := o.Client.Ledger(ctx, s.Name)
		if err != nil {
			return nil, nil, err
		}
		if err := results.CheckReceipts(learner.Notes().Receipts, results.ReleasesOf(lines, s.Name)); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", checkpoint, err)
		}
	}
	if learner.Rounds() > 0 {
		status.Round = first + learner.Rounds()
	}
	if status.Rounds > 0 {
		o.Watch(status)
	}
	keeper := &keeper{save: func() error {
		return learner.Save(checkpoint, identity)
	}, learner: learner, ask: ask, plan: plan, last: roundsLeft(plan, opened)}
	err = learner.Learn(ctx, ask, roundsLeft(plan, opened),
		keeper.keep,
		func(p pipeline.Progress) {
			status.Round, status.Rounds, status.EpsilonSpent = first+p.Round, first+p.Rounds, p.EpsilonSpent
			o.Watch(status)
		})
	if student.NothingMore(err) && learner.Rounds() > 0 {
		// The aggregator refused the next question before it was asked. What was
		// learned until then is the result.
		o.Log.Warn("the budget is used; finishing with what was learned", zap.Error(err))
		return learner, ask, nil
	}
	if student.NothingMore(err) || errors.Is(err, pipeline.ErrDiverged) {
		// Nothing more can be asked, or it would end the same way; a run that stays open
		// could never be verified.
		_, closeErr := o.Client.CloseRun(ctx, s.Name, nil)
		return nil, nil, errors.Join(err, closeErr)
	}
	return learner, ask, err
}

// startOf is the pipeline of the run's start, if its plan has one: the run's own pipeline, or that of the warm
// start.
func startOf(s *runfile.Spec) pipeline.Pipeline {
	if p, _ := pipelines.Named(s.Pipeline); p.Warm != nil {
		return p
	}
	of, _ := s.WarmStart()
	return of
}

// startWith gives a student the planned start that replaces the class shares, if there is one. Watch is called
// with the progress of fitting the generator.
func startWith(learner pipeline.Student, s *runfile.Spec, schema *partition.Schema, p *plan.Plan, ask pipeline.Asker,
	watch func(done, steps int)) error {
	if _, own := s.Training(schema).(starting); p.Start == nil || own {
		return nil
	}
	starter, ok := learner.(pipeline.Starter)
	if !ok {
		return fmt.Errorf("the student of %s begins with nothing but class counts", s.Pipeline)
	}
	of := startOf(s)
	start, err := of.Warm.Begin(s.Sections[of.Name], s.Problem(schema), p.Start, ask, watch)
	if err == nil {
		starter.StartWith(start)
	}
	return err
}

// roundsReleased is the number of rounds that were released before this start of the program, without the first
// round (the class shares or a start).
func roundsReleased(p *plan.Plan, opened *conclavev1.OpenRunResponse) int {
	return max(0, int(opened.Rounds)-len(p.First()))
}

// roundsLeft is the number of rounds to learn from: the plan's or, for a closed run, only the released ones. A
// student that was stopped between closing its run and writing its files must not ask for more.
func roundsLeft(p *plan.Plan, opened *conclavev1.OpenRunResponse) int {
	if opened.Closed {
		return min(p.Rounds, roundsReleased(p, opened))
	}
	return p.Rounds
}

// identity names everything a checkpoint depends on.
func identity(s *runfile.Spec, schema *partition.Schema, coin bool) string {
	text := fmt.Sprintf("%s %s %d %d %v %s %+v", s.Name, schema.SHA256, s.Seed, s.Teachers, coin, s.Pipeline,
		s.Training(schema).Chosen())
	if of, share := warmStart(s, schema); share.Value > 0 {
		text += fmt.Sprintf(" %v %+v", share.Value, of.New(s.Sections[of.Name], s.Problem(schema)).Chosen())
	}
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// DatasetBudget is the budget of the dataset of a local run of the job.
func (j *Job) DatasetBudget() privacy.Budget { return j.Spec.Privacy.DatasetBudget(j.Plan.Filter()) }
