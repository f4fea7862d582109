package local

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/report"
	"github.com/conclave-dp/conclave/internal/report/picture"
	"github.com/conclave-dp/conclave/internal/run/results"
	"github.com/conclave-dp/conclave/internal/testkit"
)

const gaussiansSchema = `name: gaussians
columns:
  - {name: x, kind: continuous, lower: -5, upper: 5}
  - {name: y, kind: continuous, lower: -5, upper: 5}
`

// gaussians writes n points of 25 equal Gaussians on a grid.
func gaussians(t *testing.T, path string, n int, rng *rand.Rand) {
	t.Helper()
	var rows strings.Builder
	rows.WriteString("x,y\n")
	for range n {
		fmt.Fprintf(&rows, "%.6f,%.6f\n", float64(2*rng.IntN(5)-4)+0.05*rng.NormFloat64(),
			float64(2*rng.IntN(5)-4)+0.05*rng.NormFloat64())
	}
	testkit.Must(t, os.WriteFile(path, []byte(rows.String()), 0o600))
}

// scatterRun is a run on 25 Gaussians with stages after its training.
func scatterRun(t *testing.T, stages string) (out, page string, file report.File) {
	t.Helper()
	dir := folder(t)
	testkit.Must(t, os.WriteFile(filepath.Join(dir, "example", "schema.yaml"), []byte(gaussiansSchema), 0o600))
	rng := rand.New(rand.NewPCG(25, 1))
	gaussians(t, filepath.Join(dir, "example", "train.csv"), 1000, rng)
	gaussians(t, filepath.Join(dir, "example", "test.csv"), 2500, rng)
	spec := load(t, dir, `name: small
schema: schema.yaml
data:
  - {site: a, file: train.csv, share: 0.5}
  - {site: b, file: train.csv, share: 0.5}
privacy: {epsilon: 2, delta: 1e-5}
teachers: 14
pipeline: dpgan
warm_start: {embed: 0}
release: {rows: 600}
dpgan:
  steps: 12
  rate: 0.5
  clip: 1
  quorum: 1
  discriminator: {layers: 1, hidden: 6, loss: logistic, fourier: 0, generated: 40, reuse: 1}
  student: {hidden: 8, batch: 20, steps: 1, every: 1, keep: 4}
`+stages)
	out = filepath.Join(dir, "out")
	result, err := Run(t.Context(), spec, Options{Out: out})
	if err != nil {
		t.Fatal(err)
	}
	var text [2][]byte
	for i, name := range []string{"report", "report_json"} {
		if text[i], err = os.ReadFile(result.Outputs[name]); err != nil {
			t.Fatal(err)
		}
	}
	if file, err = report.ReadJSON(text[1]); err != nil {
		t.Fatal(err)
	}
	return out, string(text[0]), file
}

// drawing is a panel of a report: its points, and the sizes they are drawn in.
type drawing struct{ points, sizes int }

var (
	panels = regexp.MustCompile(`(?s)<figure class="card">.*?<h3>(.*?)` +
		`( <span class="badge private">NOT PRIVATE</span>)?</h3>(.*?)</figure>`)
	dot   = regexp.MustCompile(`M[\d.]+ [\d.]+h0`)
	sizes = regexp.MustCompile(`stroke-width="`)
)

// pictures are the panels of a page, a marked one with a star.
func pictures(page string) (names []string, list []drawing) {
	_, section, _ := strings.Cut(page, `<section id="rows">`)
	section, _, _ = strings.Cut(section, "</section>")
	for _, m := range panels.FindAllStringSubmatch(section, -1) {
		name := m[1]
		if m[2] != "" {
			name += "*"
		}
		names = append(names, name)
		list = append(list, drawing{len(dot.FindAllString(m[3], -1)), len(sizes.FindAllString(m[3], -1))})
	}
	return names, list
}

func TestTheReportShowsRowsAfterEachStage(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes whole runs, as others do")
	}
	for _, c := range []struct {
		name, stages string
		names        []string
		weighted     bool
	}{
		{"boosting and rejection",
			"post: [pgb, drs]\npgb: {rounds: 6, candidates: 700}\nevaluate: {test: test.csv}\n",
			[]string{"real test rows*", "last generator", "after pgb", "after pgb and drs"}, false},
		{"weights", "weights: discriminator\n", []string{"last generator", "weighted (discriminator)"}, true},
		{"boosting, rows drawn by weight",
			"post: [pgb]\npgb: {rounds: 6, candidates: 700}\nweights: logreg-noised\nweighting: {use: resample}\n",
			[]string{"last generator", "after pgb", "drawn by weight (logreg-noised)"}, false},
		{"none", "evaluate: {test: test.csv}\n", nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, page, file := scatterRun(t, c.stages)
			names, list := pictures(page)
			if fmt.Sprint(names) != fmt.Sprint(c.names) {
				t.Fatalf("the panels are %q, want %q", names, c.names)
			}
			for i, p := range list {
				want, real := 600, names[i] == "real test rows*"
				if real {
					want = picture.MaxPoints
				}
				if last := i == len(list)-1; p.points != want || (p.sizes > 1) != (last && c.weighted) {
					t.Errorf("%s: %d points in %d sizes, want %d points", names[i], p.points, p.sizes, want)
				}
				if got := file.Points[i]; strings.TrimSuffix(names[i], "*") != got.Name || got.Real != real ||
					got.Columns != [2]string{"x", "y"} {
					t.Errorf("report.json says %+v of %s", got, names[i])
				}
			}
			// A report that is made anew shows what it can, and no real rows unless they are named.
			again, err := results.MakeReport(t.Context(), results.ReportOptions{From: out, Out: t.TempDir()})
			testkit.Must(t, err)
			text := testkit.Read(t, again.Outputs["report"])
			shown, list := pictures(string(text))
			if n := len(c.names); n == 0 && shown != nil ||
				n > 0 && fmt.Sprint(shown) != fmt.Sprint([]string{"last generator", c.names[n-1]}) ||
				n > 0 && list[0].points != 600 {
				t.Errorf("made anew it shows %q, %v", shown, list)
			}
			if len(file.Points) != len(names) ||
				strings.Contains(page, "NOT PRIVATE") != strings.Contains(c.stages, "test.csv") {
				t.Errorf("%d panels in report.json, or a mark too many", len(file.Points))
			}
		})
	}
}
