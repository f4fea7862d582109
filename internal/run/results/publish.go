package results

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/conclave-dp/conclave/internal/certificate"
	"github.com/conclave-dp/conclave/internal/ledger"
	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/privacy/meaning"
	"github.com/conclave-dp/conclave/internal/report"
	"github.com/conclave-dp/conclave/internal/report/text"
	"github.com/conclave-dp/conclave/internal/version"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/tabular"
)

// Made are the rows of a release.
type Made struct {
	Table *partition.Table
	// Unweighted are the rows before they had weights, or were drawn by them.
	Unweighted *partition.Table
	// Before are the rows before the stages and between them.
	Before []Snapshot
	// Weights has a weight for each row; nil for none.
	Weights []float64
	// Notes say what the stages did, for the report.
	Notes []string
	// Figures are figures about the rows that the budget paid for.
	Figures []pipeline.Figure
}

// Release is everything that a run publishes.
type Release struct {
	// Run is the run whose releases paid for it. Of describes what was run.
	Run string
	Of  Of
	// Notes are sentences for the certificate.
	Notes []string
	// Epsilon and Delta are the run's budget.
	Epsilon, Delta float64
	// Config is the text of the run.yaml, SharedConfig the part that others may see.
	Config, SharedConfig string
	// Sealing ends the run.
	Sealing Sealing
	// Learned are the student's notes of releases. Shares are the released answers of the rounds, if known.
	Learned *pipeline.Learned
	Shares  map[uint64]*report.Shares
	Schema  *partition.Schema
	Model   pipeline.Model
	// Made are the rows, Name is their name in pictures.
	Made *Made
	Name string
	Real Real
	// About is further information about the run.
	About report.About
	// Out is the output folder. Form is the format of the rows: tabular.CSV or tabular.Parquet.
	Out, Form string
}

// Of describes the run, for results without a certificate.
type Of struct {
	Pipeline, Guarantee string
	Teachers            int
	Earlier             []string // runs that it continued
}

// rows returns the released rows, with their weights.
func (r *Release) rows() (*partition.Table, error) {
	if r.Made.Weights == nil {
		return r.Made.Table, nil
	}
	return r.Made.Table.WithWeights(r.Made.Weights)
}

// Publish writes all files of a run that is published. Rows and model come first: the run is closed with their
// list.
func (r *Release) Publish(ctx context.Context) (*Result, error) {
	synthetic, err := r.rows()
	if err != nil {
		return nil, err
	}
	out := Files(r.Out, r.Schema.Image, r.Form)
	sealed, synthetic, err := r.seal(ctx, out, synthetic)
	if err != nil {
		return nil, err
	}
	ledgerFile := append(bytes.Join(sealed.Ledger, []byte("\n")), '\n')
	verified, err := ledger.VerifyStrict(bytes.NewReader(ledgerFile))
	if err != nil && !errors.Is(err, ledger.ErrUnclosed) {
		// Another run of the dataset may be open; this one is closed.
		return nil, fmt.Errorf("the aggregator's ledger does not verify: %w; keep this folder and ask its operator",
			err)
	}
	releases := ReleasesOf(sealed.Ledger, r.Run)
	if err := CheckReceipts(r.Learned.Receipts, releases); err != nil {
		return nil, err
	}
	if err := writeText(out["ledger"], ledgerFile); err != nil {
		return nil, err
	}
	certificate, err := r.certify(verified, ledgerFile, sealed.sum, synthetic.Len())
	if err != nil {
		return nil, err
	}
	total := verified.Runs[r.Run]
	result := &Result{
		Name: r.Run, Pipeline: r.Of.Pipeline,
		Protection: Protection{
			Epsilon: certificate.Epsilon, Delta: certificate.Delta, Guarantee: r.Of.Guarantee,
			EpsilonSpent: certificate.EpsilonSpent,
		},
		Asked: Asked{
			Rounds: total.Releases, Queries: total.Queries, Answered: total.Answered,
			Teachers: r.Of.Teachers, TeachersLeast: certificate.TeachersLeast,
		},
		Rows: synthetic.Len(), Outputs: out, Earlier: r.Of.Earlier, Notes: r.Made.Notes,
		Figures: r.Made.Figures,
	}
	page := report.Page{
		Certificate: certificate, Config: r.Config, Rounds: roundsOf(releases, total.Plan, r.Shares),
		Notes: r.Made.Notes, Figures: r.Made.Figures,
		About:  r.About,
		Points: panels(r.Made.Before, Snapshot{r.Name, synthetic}, r.Real.Test),
	}
	// The budget is spent: a failed comparison must not prevent writing the rest.
	failed := fillPage(ctx, &page, synthetic, r.Real)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	result.Utility, result.HeldOut = utilityOf(page.Evaluation), r.Real.HeldOut
	if err := writeReports(out, page, private); err != nil {
		return nil, err
	}
	reports, err := r.share(ctx, page, synthetic)
	if err != nil {
		return nil, err
	}
	out["shared"] = filepath.Join(r.Out, shareFolder)
	if err := r.Sealing.sign(out["signatures"], sealed, certificate, reports); err != nil {
		return nil, err
	}
	// A folder with a certificate counts as finished, so the certificate comes last.
	if err := certificate.WriteFile(out["certificate"]); err != nil {
		return nil, err
	}
	if failed != nil {
		return nil, fmt.Errorf("%w; all results were written, but the report has no comparison: run conclave report "+
			"--from %s --test FILE to try again", failed, r.Out)
	}
	return result, nil
}

func (r *Release) writeRows(out map[string]string, synthetic *partition.Table) error {
	if err := r.Model.Save(out["model"]); err != nil {
		return err
	}
	write := func(b *bytes.Buffer) error { return tabular.Write(b, r.Form, synthetic, r.Made.Weights) }
	if err := WriteFile(out["synthetic"], write); err != nil {
		return err
	}
	// The file is from an earlier start, before the run's format was changed.
	if err := os.Remove(rowsPath(r.Out, otherForm(r.Form))); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("write results: %w", err)
	}
	if r.Schema.Image != nil {
		return writeImages(out, synthetic)
	}
	return nil
}

// datasetTotal says what all runs on the records may spend and have spent, in addition to the run's own figures.
func datasetTotal(v ledger.Verification) string {
	return fmt.Sprintf("All runs on this dataset share a budget of epsilon %g at delta %g. So far %s spent epsilon "+
		"%.4g of it together (%s). What other ledgers spent on the same records comes on top.", v.Budget.Epsilon,
		v.Budget.Delta, text.Several(len(v.Runs), "run"), v.Price.Epsilon, v.Price.Accountant)
}

func (r *Release) certify(verified ledger.Verification, ledgerFile, manifestSum []byte, rows int) (
	c certificate.Certificate, err error) {
	run := verified.Runs[r.Run]
	budget := run.Budget
	if len(run.Facts.Earlier) > 0 {
		budget = verified.Budget
	}
	g := meaning.Guarantee{Epsilon: budget.Epsilon, Delta: budget.Delta, Records: r.About.Records}
	c, err = certificate.New(certificate.Facts{
		Run: r.Run, Guarantee: r.Of.Guarantee, Rows: rows, TeachersLeast: r.Learned.TeachersLeast,
		ColumnsFromRows: r.Schema.ColumnsFromRows(),
		Manifest:        hex.EncodeToString(manifestSum), Created: time.Now(), Software: version.Software,
		Notes: slices.Concat(g.Warnings(), r.Notes, []string{datasetTotal(verified)}),
	}, verified)
	if err != nil {
		return c, err
	}
	if err := c.Against(verified, ledgerFile); err != nil {
		return c, fmt.Errorf("the certificate does not verify: %w", err)
	}
	return c, nil
}
