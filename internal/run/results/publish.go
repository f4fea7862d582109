package results

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/conclave-dp/conclave/internal/certificate"
	"github.com/conclave-dp/conclave/internal/ledger"
	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/report"
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
}

// Release is what a run leaves.
type Release struct {
	// Facts are those of the certificate; what the ledger and the rows say is filled in.
	Facts certificate.Facts
	// Epsilon and Delta are the run's budget.
	Epsilon, Delta float64
	// Config is the text of the run.yaml.
	Config string
	// Ledger is that in which the release is paid, line by line.
	Ledger [][]byte
	// Learned are the student's notes of releases, Shares how the answers of the rounds are
	// spread, where that is known.
	Learned *pipeline.Learned
	Shares  map[uint64]*report.Shares
	Schema  *partition.Schema
	Model   pipeline.Model
	// Made are the rows, Name is their name in pictures.
	Made *Made
	Name string
	Real Real
	// Out is the output folder.
	Out string
}

// rows are those that are released, with their weights.
func (r *Release) rows() (*partition.Table, error) {
	if r.Made.Weights == nil {
		return r.Made.Table, nil
	}
	return r.Made.Table.WithWeights(r.Made.Weights)
}

// Publish writes all files of a run that is given away.
func (r *Release) Publish(ctx context.Context) (*Result, error) {
	synthetic, err := r.rows()
	if err != nil {
		return nil, err
	}
	out := Files(r.Out, r.Schema.Image)
	if err := r.writeRows(out, synthetic); err != nil {
		return nil, err
	}
	ledgerFile := append(bytes.Join(r.Ledger, []byte("\n")), '\n')
	verified, err := ledger.Verify(bytes.NewReader(ledgerFile))
	if err != nil && !errors.Is(err, ledger.ErrUnclosed) {
		// Another run of the dataset may be open; this one is closed.
		return nil, fmt.Errorf("the aggregator's ledger does not verify: %w; keep this folder and ask its operator",
			err)
	}
	releases := ReleasesOf(r.Ledger, r.Facts.Run)
	if err := CheckReceipts(r.Learned.Receipts, releases); err != nil {
		return nil, err
	}
	write := func(b *bytes.Buffer) error { _, err := b.Write(ledgerFile); return err }
	if err := WriteFile(out["ledger"], write); err != nil {
		return nil, err
	}
	certificate, err := r.certify(verified, ledgerFile, synthetic.Len())
	if err != nil {
		return nil, err
	}
	total := verified.Runs[r.Facts.Run]
	result := &Result{
		Name: r.Facts.Run, Pipeline: r.Facts.Pipeline,
		Protection: Protection{
			Epsilon: certificate.Epsilon, Delta: certificate.Delta, Guarantee: r.Facts.Guarantee,
			EpsilonSpent: certificate.EpsilonSpent,
		},
		Asked: Asked{
			Rounds: total.Releases, Queries: total.Queries, Answered: total.Answered,
			Teachers: r.Facts.Teachers, TeachersLeast: certificate.TeachersLeast,
		},
		Rows: synthetic.Len(), Outputs: out, Earlier: r.Facts.Earlier, Notes: r.Made.Notes,
	}
	page := report.Page{
		Certificate: certificate, Config: r.Config, Rounds: roundsOf(releases, total.Plan, r.Shares),
		Notes:  r.Made.Notes,
		Points: panels(r.Made.Before, Snapshot{r.Name, synthetic}, r.Real.Test),
	}
	// The budget is spent: what cannot be compared must not keep the rest from
	// being written.
	failed := fillPage(ctx, &page, synthetic, r.Real)
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
		return nil, fmt.Errorf("%w; all results are written, the report without this comparison: conclave report "+
			"--from %s --test FILE tries it again", failed, r.Out)
	}
	return result, nil
}

func (r *Release) writeRows(out map[string]string, synthetic *partition.Table) error {
	if err := r.Model.Save(out["model"]); err != nil {
		return err
	}
	write := func(b *bytes.Buffer) error { return tabular.WriteWeightedCSV(b, synthetic, r.Made.Weights) }
	if err := WriteFile(out["synthetic"], write); err != nil {
		return err
	}
	if r.Schema.Image != nil {
		return writeImages(out, synthetic)
	}
	return nil
}

func (r *Release) certify(verified ledger.Verification, ledgerFile []byte, rows int) (c certificate.Certificate,
	err error) {
	facts := r.Facts
	facts.SchemaSHA256, facts.Neighbouring, facts.Rows = r.Schema.SHA256, verified.Neighbouring, rows
	facts.TeachersLeast, facts.Created, facts.Software = r.Learned.TeachersLeast, time.Now(), version.Software
	if c, err = certificate.New(facts, verified); err != nil {
		return c, err
	}
	if err := c.Verify(bytes.NewReader(ledgerFile)); err != nil && !errors.Is(err, ledger.ErrUnclosed) {
		return c, fmt.Errorf("the certificate does not verify: %w", err)
	}
	return c, nil
}
