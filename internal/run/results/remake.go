package results

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/conclave-dp/conclave/internal/certificate"
	"github.com/conclave-dp/conclave/internal/proof"
	"github.com/conclave-dp/conclave/internal/report"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/tabular"
)

// ReportOptions name the source of a report and its destination.
type ReportOptions struct {
	// From is the output folder of a finished run. Out is the folder of the report; empty means the same
	// folder.
	From, Out string
	// Test and Train are CSV or idx files of real rows to compare with. Without them nothing in the report is
	// NOT PRIVATE.
	Test, Train string
	// CoinFlips is the synthetic table, or images, of the same run with coin flips for votes.
	CoinFlips string
	// Warn is called about oddities of the files that are not errors. It may be nil.
	Warn func(sentence string)
}

// ReportResult describes a written report, and is the object of --format json.
type ReportResult struct {
	Run          string  `json:"run"`
	Epsilon      float64 `json:"epsilon"`
	Delta        float64 `json:"delta"`
	EpsilonSpent float64 `json:"epsilon_spent"`
	Rows         int     `json:"rows"`
	// StatedNotProven are fields of the certificate that the ledger, against which it was verified, does not
	// contain.
	StatedNotProven []string          `json:"stated_not_proven"`
	NotPrivate      bool              `json:"not_private"`
	Outputs         map[string]string `json:"outputs"`
	// Utility holds measurements on real test rows. NOT PRIVATE.
	Utility []UtilityResult `json:"utility_not_private,omitempty"`
}

// Finished is the content of a finished run's folder, verified as far as possible.
type Finished struct {
	Certificate certificate.Certificate
	rounds      []report.Round
	synthetic   *partition.Table
	Earlier     report.File // the report of the run, empty if there is none
}

// MakeReport makes the reports of a finished run again. Before it writes anything, it verifies the certificate
// against the ledger, and the schema and the number of rows against the certificate.
func MakeReport(ctx context.Context, o ReportOptions) (*ReportResult, error) {
	if o.Out == "" {
		o.Out = o.From
	}
	if filepath.Clean(o.Out) == filepath.Join(o.From, shareFolder) {
		return nil, fmt.Errorf("%s has the signed report for others; give another folder with --out", o.Out)
	}
	f, err := ReadFinished(o.From)
	if err != nil {
		return nil, err
	}
	real, err := LoadReal(Evaluate{Test: o.Test, Train: o.Train, CoinFlips: o.CoinFlips, Models: []string{"all"}},
		f.synthetic.Schema())
	if err != nil {
		return nil, err
	}
	if o.Warn != nil {
		for _, sentence := range real.Warnings {
			o.Warn(sentence)
		}
	}
	page := report.Page{
		Certificate: f.Certificate, Rounds: f.rounds, Config: f.Earlier.Config, Notes: f.Earlier.Notes,
		Figures: f.Earlier.Figures,
		About:   f.about(),
	}
	if err := fillPage(ctx, &page, f.synthetic, real); err != nil {
		return nil, err
	}
	if page.Points, err = f.panels(filepath.Join(o.From, "model"), real.Test); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(o.Out, 0o755); err != nil {
		return nil, fmt.Errorf("create the folder of the report: %w; give another folder with --out", err)
	}
	out := Files(o.Out, nil, tabular.CSV)
	if err := writeReports(out, page, private); err != nil {
		return nil, err
	}
	c := f.Certificate
	result := &ReportResult{
		Run: c.Run, Epsilon: c.Epsilon, Delta: c.Delta, EpsilonSpent: c.EpsilonSpent, Rows: c.Rows,
		StatedNotProven: certificate.Stated, NotPrivate: page.NotPrivate(), Utility: utilityOf(page.Evaluation),
		Outputs: map[string]string{"report": out["report"], "report_md": out["report_md"],
			"report_json": out["report_json"]},
	}
	return result, nil
}

func ReadFinished(dir string) (*Finished, error) {
	files := Files(dir, nil, tabular.CSV) // except the rows, whose form is in the manifest
	certificate, err := certificate.Read(files["certificate"])
	if errors.Is(err, fs.ErrNotExist) {
		if compared, _ := filepath.Glob(filepath.Join(dir, notPrivateName+"*")); len(compared) > 0 {
			return nil, fmt.Errorf("%s has a comparison, NOT PRIVATE (release.private: false), without a "+
				"certificate; give the output folder of a private run with --from", dir)
		}
		return nil, fmt.Errorf("%w; give the output folder of a finished run with --from", err)
	}
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(files["ledger"])
	if err != nil {
		return nil, fmt.Errorf("read the ledger: %w; copy ledger.jsonl next to certificate.json", err)
	}
	total, err := certificate.Proven(text)
	if err != nil {
		return nil, fmt.Errorf("%s does not verify against %s: %w", files["certificate"], files["ledger"], err)
	}
	folder, err := proof.OpenFolder(dir)
	if err != nil {
		return nil, err
	}
	defer folder.Close()
	manifest, err := proof.CheckFiles(folder, certificate)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	files["synthetic"] = filepath.Join(dir, manifest.RowsFile())
	if err := checkSealed(dir, total.Manifest, certificate); err != nil {
		return nil, err
	}
	schemaPath := filepath.Join(files["model"], "schema.yaml")
	schema, err := partition.LoadSchema(schemaPath)
	if err != nil {
		return nil, err
	}
	if schema.SHA256 != certificate.SchemaSHA256 {
		return nil, fmt.Errorf("%s is not the schema of the run: its SHA-256 is %s, the certificate says %s; copy "+
			"the model folder again, and do not edit it",
			schemaPath, schema.SHA256, certificate.SchemaSHA256)
	}
	synthetic, err := tabular.Read(schema, files["synthetic"], tabular.Options{Weights: true})
	if err != nil {
		return nil, fmt.Errorf("the synthetic rows: %w", err)
	}
	if synthetic.Len() != certificate.Rows {
		return nil, fmt.Errorf("%s has %d rows, the certificate says %d: rows were added or removed; copy "+
			"the file again",
			files["synthetic"], synthetic.Len(), certificate.Rows)
	}
	f := &Finished{Certificate: certificate, synthetic: synthetic}
	if f.Earlier, err = readEarlier(files["report_json"], certificate); err != nil {
		return nil, err
	}
	f.rounds = roundsOf(ReleasesOf(LedgerLines(text), certificate.Run), total.Plan, earlierShares(f.Earlier))
	return f, nil
}

// checkSealed refuses files other than those with which the run was closed, except those of free stages, which the
// folder's state names.
func checkSealed(dir, closedWith string, c certificate.Certificate) error {
	if closedWith == "" || closedWith == c.ManifestSHA256 {
		return nil
	}
	if r, err := ReadRecord(dir); err == nil && r.Name != c.Run {
		return nil
	}
	return fmt.Errorf("%s: rows or another file were replaced: %s is not the list that run %q was closed with; copy "+
		"the folder again", dir, proof.ManifestFile, c.Run)
}

// about returns what the earlier report said about the run, without the parts of certificate and ledger.
func (f *Finished) about() report.About {
	a := f.Earlier.About
	a.Purpose, a.Study, a.Sites = f.Certificate.Purpose, f.Certificate.Study, nil
	for _, s := range f.Certificate.Roster {
		a.Sites = append(a.Sites, s.Site)
	}
	return a
}

func LedgerLines(ledger []byte) [][]byte {
	return bytes.Split(bytes.TrimRight(ledger, "\n"), []byte("\n"))
}

// readEarlier reads what only the run's own report has: its configuration, its time, and the spread of the
// answers. A folder may have no report.
func readEarlier(path string, c certificate.Certificate) (report.File, error) {
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return report.File{}, nil
	}
	if err != nil {
		return report.File{}, fmt.Errorf("read the earlier report: %w", err)
	}
	f, err := report.ReadJSON(raw)
	if err == nil && (f.Certificate.Run != c.Run || f.Certificate.LedgerHead != c.LedgerHead) {
		err = fmt.Errorf("it belongs to another run than the certificate")
	}
	if err != nil {
		return report.File{}, fmt.Errorf("%s: %w; remove it to make the report without its contents", path,
			err)
	}
	return f, nil
}

func earlierShares(f report.File) map[uint64]*report.Shares {
	shares := map[uint64]*report.Shares{}
	for _, r := range f.Rounds {
		shares[r.Round] = r.Shares
	}
	return shares
}
