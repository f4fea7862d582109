package run

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/conclave-dp/conclave/internal/certificate"
	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/report"
	"github.com/conclave-dp/conclave/internal/run/results"
	"github.com/conclave-dp/conclave/internal/student"
)

// learned is what a run has learned.
type learned struct {
	student pipeline.Student
	model   pipeline.Model
	// notes are of the run's own releases, and of those of its stages.
	notes *pipeline.Learned
	// earlier are the runs that it went on from.
	earlier []string
}

// finish lets the stages follow, ends the run and writes all its files.
func (j *Job) finish(ctx context.Context, l learned, ask *asker, o Options) (*results.Result, error) {
	made, failed := j.after(ctx, l, ask, o)
	if failed != nil && !errors.Is(failed, student.ErrOverBudget) && !errors.Is(failed, pipeline.ErrStage) {
		return nil, failed
	}
	// A stage that failed would end the same way again; a run that stays open could never be verified.
	if _, err := o.Client.CloseRun(ctx, j.Spec.Name); err != nil {
		return nil, errors.Join(failed, err)
	}
	if failed != nil {
		return nil, j.salvage(ctx, l, made, failed, o)
	}
	return j.publish(ctx, l, made, o)
}

// salvage writes the rows of a run without the stage that failed: what was trained and boosted is paid
// for. It returns the error with what became of them.
func (j *Job) salvage(ctx context.Context, l learned, rest *results.Made, failed error, o Options) error {
	later := len(l.earlier) > 0
	if later && l.notes.Spent > 0 {
		failed = fmt.Errorf("%w; epsilon %.4g of the stage's %v is spent", failed, l.notes.Spent,
			j.Spec.Privacy.Epsilon)
	}
	if !j.Spec.Release.Private || later && rest == nil {
		return failed
	}
	what := "the rows in %s are of the stages before it"
	if rest == nil {
		table, err := l.model.Sample(j.Spec.Release.Rows, nil, rand.New(rand.NewPCG(j.Spec.Seed, 0xda7a)))
		if err != nil {
			return errors.Join(failed, err)
		}
		rest = &results.Made{Table: table,
			Notes: []string{"The stages after the training failed, and the rows are as they were before them."}}
		what = "the rows of the last generator are in %s, without the stages"
	}
	result, err := j.publish(ctx, l, rest, o)
	if err != nil {
		return errors.Join(failed, err)
	}
	failed = fmt.Errorf("%w; "+what, failed, o.Out)
	if later {
		return failed
	}
	return fmt.Errorf("%w, and epsilon %.4g is spent: fix the options and try the stages on it with conclave post "+
		"--from or conclave weights --from, free ones at no cost", failed, result.EpsilonSpent)
}

// publish writes all files of the run.
func (j *Job) publish(ctx context.Context, l learned, made *results.Made, o Options) (*results.Result, error) {
	lines, err := o.Client.Ledger(ctx, j.Spec.Name)
	if err != nil {
		return nil, err
	}
	return j.publishPaid(ctx, l, made, j.Spec.Name, lines, o)
}

// publishPaid writes all files of what was paid for in a run, which the lines of the ledger hold.
func (j *Job) publishPaid(ctx context.Context, l learned, made *results.Made, run string, ledger [][]byte,
	o Options) (*results.Result, error) {
	s := j.Spec
	r := &results.Release{
		Facts: certificate.Facts{
			Run: run, Earlier: l.earlier, Pipeline: s.Pipeline, Guarantee: s.Privacy.Guarantee,
			Unit: s.Privacy.Unit, Teachers: s.Teachers,
		},
		Epsilon: s.Privacy.Epsilon, Delta: s.Privacy.Delta, Config: s.Text, Ledger: ledger,
		Learned: l.notes, Shares: sharesOf(l), Schema: j.Schema, Model: l.model,
		Made: made, Name: releasedOf(s), Real: j.real, Out: o.Out,
	}
	if o.Coin {
		r.Facts.Votes = certificate.VotesCoin
	}
	if !s.Release.Private {
		r.Facts.Run = s.Name
		return r.Compare(ctx)
	}
	return r.Publish(ctx)
}

// sharesOf summarizes the answers of the run's rounds, whose votes the student may know.
func sharesOf(l learned) map[uint64]*report.Shares {
	voted, ok := l.student.(pipeline.Voted)
	if !ok || len(l.earlier) > 0 { // whose rounds they were
		return nil
	}
	shares := map[uint64]*report.Shares{}
	for _, r := range voted.Votes() {
		shares[r.Round] = report.SharesOf(r.Shares, r.Noise)
	}
	return shares
}
