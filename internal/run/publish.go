package run

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/conclave-dp/conclave/internal/certificate"
	"github.com/conclave-dp/conclave/internal/ledger"
	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/report"
	"github.com/conclave-dp/conclave/internal/version"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/tabular"
)

// realTables are what the report compares with, and by which classifiers. Tables
// that the spec does not name are nil. Of real rows: NOT PRIVATE.
type realTables struct {
	test, train *partition.Table
	coinFlips   *partition.Table
	models      []string // nil for all
	// images are what the report of images compares with, in place of tables.
	images realImages
}

// loadReal reads the real tables before anything is spent, so that a mistake
// in their paths costs nothing.
func loadReal(e Evaluate, schema *partition.Schema) (realTables, error) {
	r := realTables{models: e.modelNames()}
	if schema.Image != nil {
		var err error
		r.images, err = loadRealImages(e, schema)
		return r, err
	}
	for _, f := range []struct {
		path    string
		into    **partition.Table
		options tabular.Options
	}{
		{e.Test, &r.test, tabular.Options{}}, {e.Train, &r.train, tabular.Options{}},
		{e.CoinFlips, &r.coinFlips, tabular.Options{IgnoreUnit: true, Weights: true}},
	} {
		if f.path == "" {
			continue
		}
		t, err := tabular.Read(schema, f.path, f.options)
		if err != nil {
			return r, fmt.Errorf("rows for the report: %w", err)
		}
		*f.into = t
	}
	return r, nil
}

// paidIn is the ledger that a release is paid in.
type paidIn struct {
	run string
	// earlier are the runs that it went on from.
	earlier []string
	lines   [][]byte
}

// publish writes all files of the run.
func (j *Job) publish(ctx context.Context, model *pipeline.Model, trained trainer, made *made, o Options) (*Result, error) {
	lines, err := o.Client.Ledger(ctx, j.Spec.Name)
	if err != nil {
		return nil, err
	}
	return j.publishCharged(ctx, model, trained, made, paidIn{run: j.Spec.Name, lines: lines}, o)
}

// publishCharged is publish of what some ledger paid for.
func (j *Job) publishCharged(ctx context.Context, model *pipeline.Model, trained trainer, made *made, paid paidIn, o Options) (*Result, error) {
	s, schema, real, synthetic := j.Spec, j.Schema, j.real, made.table
	if made.weights != nil {
		var err error
		if synthetic, err = synthetic.WithWeights(made.weights); err != nil {
			return nil, err
		}
	}
	out := outputsOf(o.Out, schema.Image)
	if !s.Release.Private {
		return j.compare(ctx, model, trained, synthetic, made, o)
	}
	if err := model.Save(out["model"]); err != nil {
		return nil, err
	}
	if err := writeFile(out["synthetic"], func(b *bytes.Buffer) error { return tabular.WriteWeightedCSV(b, synthetic, made.weights) }); err != nil {
		return nil, err
	}
	if schema.Image != nil {
		if err := writeImages(out, synthetic); err != nil {
			return nil, err
		}
	}
	ledgerFile := append(bytes.Join(paid.lines, []byte("\n")), '\n')
	verified, err := ledger.Verify(bytes.NewReader(ledgerFile))
	if err != nil && !errors.Is(err, ledger.ErrUnclosed) {
		// Another run of the dataset may be open; this one is closed.
		return nil, fmt.Errorf("the aggregator's ledger does not verify: %w; keep this folder and ask its operator", err)
	}
	releases := releasesOf(paid.lines, paid.run)
	if err := checkReceipts(trained.Notes().Receipts, releases); err != nil {
		return nil, err
	}
	if err := writeFile(out["ledger"], func(b *bytes.Buffer) error { _, err := b.Write(ledgerFile); return err }); err != nil {
		return nil, err
	}
	facts := certificate.Facts{
		Run: paid.run, Earlier: paid.earlier, SchemaSHA256: schema.SHA256, Pipeline: s.Pipeline, Guarantee: s.Privacy.Guarantee,
		Neighbouring: verified.Neighbouring, Unit: s.Privacy.Unit, Rows: synthetic.Len(), Teachers: s.Teachers, TeachersLeast: trained.Notes().TeachersLeast,
		Created: time.Now(), Software: version.Software,
	}
	if o.Coin {
		facts.Votes = certificate.VotesCoin
	}
	certificate, err := certificate.New(facts, verified)
	if err != nil {
		return nil, err
	}
	if err := certificate.Verify(bytes.NewReader(ledgerFile)); err != nil && !errors.Is(err, ledger.ErrUnclosed) {
		return nil, fmt.Errorf("the certificate does not verify: %w", err)
	}
	total := verified.Runs[paid.run]
	result := &Result{
		Name: paid.run, Pipeline: s.Pipeline, Epsilon: certificate.Epsilon, Delta: certificate.Delta, Guarantee: s.Privacy.Guarantee,
		EpsilonSpent: certificate.EpsilonSpent, Rounds: total.Releases, Queries: total.Queries, Answered: total.Answered,
		Teachers: s.Teachers, TeachersLeast: certificate.TeachersLeast, Rows: synthetic.Len(), Outputs: out, Earlier: paid.earlier, Notes: made.notes,
	}
	page := report.Page{
		Certificate: certificate, Config: s.Text, Rounds: roundsOf(releases, total.Plan, trained.shares()),
		Elapsed: time.Since(o.Started).Round(time.Second), Notes: made.notes,
		Points: panels(made.before, snapshot{s.released(), synthetic}, real.test),
	}
	// The budget is spent: what cannot be compared must not keep the rest from
	// being written.
	failed := fillPage(ctx, &page, synthetic, real)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	result.Utility = utilityOf(page.Evaluation)
	if err := writeReports(out, page); err != nil {
		return nil, err
	}
	// A folder with a certificate counts as finished, so it comes last.
	if err := certificate.WriteFile(out["certificate"]); err != nil {
		return nil, err
	}
	if failed != nil {
		return nil, fmt.Errorf("%w; all results are written, the report without this comparison: conclave report --from %s --test FILE tries it again", failed, o.Out)
	}
	result.WallSeconds = time.Since(o.Started).Seconds()
	return result, nil
}

// writeFile writes a file so that a crash leaves the old or the new one.
func writeFile(path string, fill func(*bytes.Buffer) error) error {
	var b bytes.Buffer
	if err := fill(&b); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if err := os.WriteFile(part(path), b.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write results: %w", err)
	}
	if err := os.Rename(part(path), path); err != nil {
		return fmt.Errorf("write results: %w", err)
	}
	return nil
}
