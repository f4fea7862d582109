package results

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/conclave-dp/conclave/internal/proof"
	"github.com/conclave-dp/conclave/internal/report"
	"github.com/conclave-dp/conclave/internal/report/picture"
	"github.com/conclave-dp/conclave/partition"
)

// shareFolder is the subfolder of a run's output with the report for others.
const shareFolder = "shared"

// share writes the report for others: the page without real rows, and without the names of a site's files. It
// returns the files, which the student signs.
func (r *Release) share(ctx context.Context, page report.Page, synthetic *partition.Table) ([]proof.File, error) {
	shared := report.Page{
		Title: page.Title, Certificate: page.Certificate, Rounds: page.Rounds, Notes: page.Notes,
		Figures: page.Figures, About: page.About,
		Config: r.SharedConfig,
		Points: slices.DeleteFunc(slices.Clone(page.Points), func(p picture.Panel) bool { return p.Real }),
	}
	if err := fillPage(ctx, &shared, synthetic, Real{}); err != nil {
		return nil, err
	}
	folder := filepath.Join(r.Out, shareFolder)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, fmt.Errorf("create the folder of the report for others: %w", err)
	}
	out := Files(folder, nil, r.Form)
	if err := writeReports(out, shared, forAll); err != nil {
		return nil, err
	}
	var files []proof.File
	for _, what := range []string{"report", "report_json", "report_md"} { // in the order of their names
		text, err := os.ReadFile(out[what])
		if err != nil {
			return nil, err
		}
		files = append(files, proof.FileOf(shareFolder+"/"+filepath.Base(out[what]), text))
	}
	return files, nil
}
