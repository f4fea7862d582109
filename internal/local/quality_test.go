package local

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/conclave-dp/conclave/examples/flchain"
	"github.com/conclave-dp/conclave/internal/certificate"
	"github.com/conclave-dp/conclave/internal/evaluate"
	"github.com/conclave-dp/conclave/internal/report"
	"github.com/conclave-dp/conclave/internal/run"
	"github.com/conclave-dp/conclave/internal/run/results"
	"github.com/conclave-dp/conclave/internal/runfile"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition/tabular"
)

// On the example's records the released figure contains, within its interval, the value computed from the real rows.
// Result, certificate and all reports have it, also a regenerated report, and none marks it.
func TestTheFigureAgreesWithRealRows(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	dir, err := os.MkdirTemp("", "q") // short: etcd listens on a socket below it
	testkit.Must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	testkit.Must(t, os.CopyFS(dir, flchain.Files))
	path := filepath.Join(dir, "run.yaml")
	testkit.Must(t, os.WriteFile(path, []byte(`name: figure
schema: schema.yaml
data: [{site: north, file: train.csv.gz, share: 0.5}, {site: south, file: train.csv.gz, share: 0.5}]
privacy: {epsilon: 4, delta: 1e-5}
marginals: {fine: 64, steps: 80}
quality: {budget: 0.3}
`), 0o644))
	spec, err := runfile.Load(path)
	testkit.Must(t, err)
	result, err := Run(ctx, spec, Options{Out: filepath.Join(dir, "out")})
	testkit.Must(t, err)
	if len(result.Figures) != 2 || result.EpsilonSpent > 4 {
		t.Fatalf("figures %+v for epsilon %v", result.Figures, result.EpsilonSpent)
	}
	schema, err := spec.LoadSchema()
	testkit.Must(t, err)
	real, err := tabular.Read(schema, filepath.Join(dir, "train.csv.gz"), tabular.Options{})
	testkit.Must(t, err)
	synthetic, err := tabular.Read(schema, result.Outputs["synthetic"], tabular.Options{})
	testkit.Must(t, err)
	found, _, err := evaluate.CompareMarginals(real, synthetic, nil, evaluate.MarginalOptions{})
	testkit.Must(t, err)
	f := result.Figures[0]
	// The interval holds in 95% of runs. With 1.2 of its width on both sides it fails in fewer than one of 1e9.
	wide := 1.2 * (f.High - f.Low)
	if f.Low-wide > found[0].Mean || found[0].Mean > f.High+wide || f.High-f.Low > 0.02 {
		t.Errorf("the figure is %v, by real rows %v", f, found[0].Mean)
	}
	c, err := certificate.Read(result.Outputs["certificate"])
	testkit.Must(t, err)
	if n := len(c.Mechanisms); n != 3 { // columns, pairs, and the figure
		t.Errorf("%d mechanisms: %v", n, c.Mechanisms)
	}
	shown := f.String()
	if !strings.Contains(shown, "paid for with epsilon 1.2") {
		t.Errorf("it is %q", shown)
	}
	check := func(outputs map[string]string) {
		t.Helper()
		for _, form := range []string{"report", "report_md"} {
			text := string(testkit.Read(t, outputs[form]))
			if !strings.Contains(text, f.Name) || !strings.Contains(text, shown) ||
				strings.Contains(text, "NOT PRIVATE") {
				t.Errorf("%s does not show the figure, or is marked", form)
			}
		}
		var file report.File
		testkit.Must(t, json.Unmarshal(testkit.Read(t, outputs["report_json"]), &file))
		testkit.Same(t, "figures", result.Figures, file.Figures)
	}
	check(result.Outputs)
	again, err := results.MakeReport(ctx, results.ReportOptions{From: filepath.Join(dir, "out"),
		Out: filepath.Join(dir, "again")})
	testkit.Must(t, err)
	check(again.Outputs)
}

// The figure is about the run's own rows: stages that follow the finished run have none, and free ones stay free.
func TestStagesAfterARunHaveNoFigure(t *testing.T) {
	t.Parallel()
	spec, dir, out := begin(t, runOn("table.csv", votes+"quality: {budget: 0.4}\n"))
	result, err := Run(t.Context(), spec, Options{Out: out})
	testkit.Must(t, err)
	if len(result.Figures) == 0 && len(result.Notes) == 0 {
		t.Error("the run has no figure, and no note says why")
	}
	later, _ := finished{dir, out}.mustStage(t, "later", run.LaterOptions{Post: []string{"drs"}})
	if len(later.Figures) > 0 || later.EpsilonSpent != result.EpsilonSpent {
		t.Errorf("a free stage leaves %+v, for epsilon %v after %v", later.Figures, later.EpsilonSpent,
			result.EpsilonSpent)
	}
}
