package run

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/report"
	"github.com/conclave-dp/conclave/internal/run/results"
	"github.com/conclave-dp/conclave/internal/runfile"
	"github.com/conclave-dp/conclave/internal/student"
)

// learned is the result of a run's training.
type learned struct {
	student pipeline.Student
	model   pipeline.Model
	// notes are the notes of the run's own releases and of its stages' releases.
	notes *pipeline.Learned
	// earlier are the runs that it continues.
	earlier []string
	// closed is the list of files with which the run was closed before, or nil.
	closed []byte
}

// finish runs the stages, ends the run and writes all its files.
func (j *Job) finish(ctx context.Context, l learned, ask *asker, o Options) (*results.Result, error) {
	made, failed := j.after(ctx, l, ask, o)
	if failed != nil && !student.NothingMore(failed) && !errors.Is(failed, pipeline.ErrStage) {
		return nil, failed
	}
	sealing := results.Sealing{Closed: l.closed, Close: j.closing(o), Sign: o.Client.Sign}
	if failed != nil {
		return nil, j.salvage(ctx, l, made, failed, sealing, o)
	}
	return j.publish(ctx, l, made, j.Spec.Name, sealing, o)
}

// closing closes the run, and reads its ledger with the signatures on the ledger's end.
func (j *Job) closing(o Options) func(context.Context, []byte) (results.Ended, error) {
	return func(ctx context.Context, manifest []byte) (results.Ended, error) {
		sealed, err := o.Client.CloseRun(ctx, j.Spec.Name, manifest)
		if err != nil {
			return results.Ended{}, err
		}
		lines, signatures, err := o.Client.SignedLedger(ctx, j.Spec.Name)
		return results.Ended{Manifest: sealed, Ledger: lines, Signatures: signatures}, err
	}
}

// salvage writes the rows of a run without the failed stage, because training and boosting are paid. A failed stage
// would fail again, and an open run could never be verified, so the run is closed in any case. It returns the error
// with what happened to the rows.
func (j *Job) salvage(ctx context.Context, l learned, rest *results.Made, failed error, sealing results.Sealing,
	o Options) error {
	later := len(l.earlier) > 0
	if later && l.notes.Spent > 0 {
		failed = fmt.Errorf("%w; epsilon %.4g of the stage's %v is spent", failed, l.notes.Spent,
			j.Spec.Privacy.Epsilon)
	}
	if !j.Spec.Release.Private || later && rest == nil {
		_, err := o.Client.CloseRun(ctx, j.Spec.Name, nil)
		return errors.Join(failed, err)
	}
	what := "the rows in %s are from the stages before it"
	if rest == nil {
		table, err := l.model.Sample(j.Spec.Release.Rows, nil, rand.New(rand.NewPCG(j.Spec.Seed, 0xda7a)))
		if err != nil {
			_, closed := o.Client.CloseRun(ctx, j.Spec.Name, nil)
			return errors.Join(failed, err, closed)
		}
		rest = &results.Made{Table: table,
			Notes: []string{"The stages after the training failed, and the rows are those before them."}}
		what = "%s has the rows of the last generator, without the stages"
	}
	result, err := j.publish(ctx, l, rest, j.Spec.Name, sealing, o)
	if err != nil {
		return errors.Join(failed, err)
	}
	failed = fmt.Errorf("%w; "+what, failed, o.Out)
	if later {
		return failed
	}
	return fmt.Errorf("%w, and epsilon %.4g is spent: fix the options and run the stages again with conclave post "+
		"--from or conclave weights --from; free stages cost nothing", failed, result.EpsilonSpent)
}

// publish ends a run, and writes all files that it paid for.
func (j *Job) publish(ctx context.Context, l learned, made *results.Made, run string, sealing results.Sealing,
	o Options) (*results.Result, error) {
	s := j.Spec
	shared, err := runfile.Shareable(s.Text)
	if err != nil {
		return nil, err
	}
	r := &results.Release{
		Run: run, Notes: append(s.UnitWarnings(j.Schema), o.Notes...),
		Of: results.Of{
			Pipeline: s.Pipeline, Guarantee: s.Privacy.Guarantee, Teachers: s.Teachers, Earlier: l.earlier,
		},
		Epsilon: s.Privacy.Epsilon, Delta: s.Privacy.Delta, Config: s.Text, SharedConfig: shared, Sealing: sealing,
		Learned: l.notes, Shares: sharesOf(l), Schema: j.Schema, Model: l.model,
		Made: made, Name: releasedOf(s), Real: j.real, Out: o.Out, Form: s.Release.Format,
		About: report.About{Purpose: s.Purpose, Study: s.StudyBlock(), Sites: s.SiteNames(), Operator: o.operator,
			Records: s.Privacy.Records},
	}
	if s.Release.Private {
		return r.Publish(ctx)
	}
	if _, err := sealing.Close(ctx, nil); err != nil { // no files are given out
		return nil, err
	}
	r.Run = s.Name
	return r.Compare(ctx)
}

// sharesOf summarizes the released answers of the run's rounds of votes.
func sharesOf(l learned) map[uint64]*report.Shares {
	voted, ok := l.student.(pipeline.Voted)
	if !ok || len(l.earlier) > 0 { // the rounds belong to earlier runs
		return nil
	}
	shares := map[uint64]*report.Shares{}
	for _, r := range voted.Votes() {
		shares[r.Round] = report.SharesOf(r.Shares, r.Noise)
	}
	return shares
}
