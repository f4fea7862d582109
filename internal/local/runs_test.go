package local

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"image/png"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/certificate"
	"github.com/conclave-dp/conclave/internal/report"
	"github.com/conclave-dp/conclave/internal/run"
	"github.com/conclave-dp/conclave/internal/run/results"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/tabular"
)

// weightsIn reads the column weight of a table of rows; nil without one.
func weightsIn(t *testing.T, path string) (weights []float64, rows int) {
	t.Helper()
	records, err := csv.NewReader(bytes.NewReader(testkit.Read(t, path))).ReadAll()
	testkit.Must(t, err)
	last := len(records[0]) - 1
	if records[0][last] != "weight" {
		return nil, len(records) - 1
	}
	sum := 0.0
	for _, r := range records[1:] {
		w, err := strconv.ParseFloat(r[last], 64)
		if err != nil || !(w >= 0) {
			t.Fatalf("a weight of %q", r[last])
		}
		weights, sum = append(weights, w), sum+w
	}
	if math.Abs(sum/float64(len(weights))-1) > 1e-9 {
		t.Errorf("the mean weight is %v", sum/float64(len(weights)))
	}
	return weights, len(records) - 1
}

// Pipelines with the stages that fit them, with teachers and with coin flips: certificate and ledger cover
// training and stages together, and the budget holds over both. The nodes of the baseline add up nothing, for
// the same price. The suite of the pipelines has each pipeline alone, with its warm start.
func TestRunsEndToEnd(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lines    string
		coin     bool
		kinds    map[string]int
		weighted bool
	}{
		"votes on gradients": {strings.Replace(gradients, "rounds: 5",
			"answers: histogram, directions: 3, mechanism: gnmax, rounds: 5", 1), false,
			map[string]int{"class-counts": 1, "gradient-votes": 5}, false},
		"an embedding by coin": {embedding, true, map[string]int{"embedding": 1}, false},
		"boosting, rejection": {votes + "post: [pgb, drs]\npgb: {rounds: 6, candidates: 400}\n", false,
			map[string]int{"class-counts": 1, "votes": 8, "scores": 6}, false},
		// Its discriminators are the ones to choose from.
		"boosting after steps": {"pipeline: dpgan\nwarm_start: {embed: 0}\ndpgan: {steps: 6, quorum: 1, student: " +
			"{hidden: 8, batch: 20, steps: 2}}\npost: [pgb]\npgb: {rounds: 6, candidates: 400, complements: false}\n",
			false, map[string]int{"class-counts": 1, "discriminator": 6, "scores": 6}, false},
		"boosting by coin": {steps + "post: [pgb]\npgb: {rounds: 6, candidates: 400, complements: false}\n", true,
			map[string]int{"class-counts": 1, "discriminator": 6, "scores": 6}, false},
		"weights after an embedding": {embedding + "weights: logreg-debiased\n", false,
			map[string]int{"embedding": 1, "fit": 1}, true},
		"rejection, rows drawn by weight": {votes + "post: [drs]\nweights: logreg-noised\n" +
			"weighting: {noise: laplace, use: resample, pool: 3}\n", false,
			map[string]int{"class-counts": 1, "votes": 8, "fit": 1}, false},
		"masked votes, selections": {votes + "post: [pgb]\npgb: {rounds: 6, candidates: 400}\naggregation: " +
			"{masked: true}\n",
			false, map[string]int{"class-counts": 1, "votes": 8, "scores": 1}, false},
		"masked steps, weights": {steps + "weights: dp-mlp\nweighting: {mlp: {steps: 5}}\n" +
			"aggregation: {masked: true, colluding: 0}\n", false,
			map[string]int{"class-counts": 1, "discriminator": 11}, true},
		"masked gradients": {gradients + "aggregation: {masked: true}\n", false,
			map[string]int{"class-counts": 1, "gradient-sums": 5}, false},
		"free weights": {votes + "weights: discriminator\nweighting: {bound: 2}\n", false,
			map[string]int{"class-counts": 1, "votes": 8}, true},
	} {
		if testing.Short() && name != "boosting, rejection" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec, dir, out := begin(t, runOn("table.csv", c.lines))
			o := Options{Out: out, Coin: c.coin}
			if c.coin {
				o.Hooks.Sums = func(_ string, round uint64, counts []int64) {
					if (round > 0 || spec.Pipeline == "embed") &&
						slices.ContainsFunc(counts, func(v int64) bool { return v != 0 }) {
						t.Errorf("round %d adds up to %v", round, counts)
					}
				}
			}
			result, err := Run(t.Context(), spec, o)
			testkit.Must(t, err)
			if got := check(t, spec, result, out, c.kinds); (got.Votes == certificate.VotesCoin) != c.coin {
				t.Errorf("the certificate says votes %q", got.Votes)
			}
			if spec.Weights == "none" && len(spec.Post) > 0 && c.coin { // a stage after the baseline is a baseline too
				f := finished{dir, out}
				_, free := f.mustStage(t, "free", run.LaterOptions{Post: []string{"drs"}})
				if got, _ := verified(t, free); got.Votes != certificate.VotesCoin {
					t.Errorf("the certificate of free stages says votes %q", got.Votes)
				}
			}
			weights, rows := weightsIn(t, result.Outputs["synthetic"])
			if rows != 50 || (weights != nil) != c.weighted {
				t.Errorf("%d rows, weights %v", rows, weights)
			}
			staged := len(spec.Post) > 0 || spec.Weights != "none"
			if (len(result.Notes) > 0) != staged || result.NotPrivate ||
				strings.Contains(strings.Join(result.Notes, ""), "NOT PRIVATE") {
				t.Errorf("notes %q", result.Notes)
			}
		})
	}
}

// Rows by methods that are NOT PRIVATE have another name and no certificate.
func TestComparisonsAreNotReleases(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes whole runs, as others do")
	}
	for _, lines := range []string{
		"weights: logreg\n", "post: [pgb]\npgb: {private: false, rounds: 6, candidates: 400}\n",
	} {
		t.Run(lines, func(t *testing.T) {
			t.Parallel()
			text := strings.Replace(runOn("table.csv", votes+lines), "rows: 50}", "rows: 50, private: false}", 1)
			text += "evaluate: {train: table.csv, test: table.csv, models: [logistic regression]}\n"
			spec, _, out := begin(t, text)
			result, err := Run(t.Context(), spec, Options{Out: out})
			testkit.Must(t, err)
			if !result.NotPrivate || !strings.Contains(strings.Join(result.Notes, ""), "NOT PRIVATE") ||
				result.Outputs["synthetic"] != "" || result.Outputs["certificate"] != "" {
				t.Errorf("result %+v", result)
			}
			if _, rows := weightsIn(t, filepath.Join(out, "NOT-PRIVATE.csv")); rows != 50 {
				t.Errorf("%d rows", rows)
			}
			for _, file := range []string{"certificate.json", "synthetic.csv"} {
				if _, err := os.Stat(filepath.Join(out, file)); err == nil {
					t.Errorf("%s was written", file)
				}
			}
		})
	}
}

// If a unit has several records, the stages count units, and the released rows have weights and made-up units.
func TestStagesOfUnitsWithSeveralRecords(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes whole runs, as others do")
	}
	spec, dir, out := begin(t, runOn("table.csv", votes+"privacy: {epsilon: 2, delta: 1e-5, unit: who}\n"+
		"post: [pgb]\npgb: {rounds: 5, candidates: 400}\nweights: logreg-debiased\n", 1))
	people(t, dir, func(i int) string { return fmt.Sprint("p", i*i%101) })
	result, err := Run(t.Context(), spec, Options{Out: out})
	testkit.Must(t, err)
	check(t, spec, result, out, map[string]int{"class-counts": 1, "votes": 8, "scores": 5, "fit": 1})
	if weights, _ := weightsIn(t, result.Outputs["synthetic"]); len(weights) != 50 {
		t.Errorf("%d weights", len(weights))
	}
	rows := strings.Split(strings.TrimSpace(string(testkit.Read(t, result.Outputs["synthetic"]))), "\n")
	at := slices.Index(strings.Split(rows[0], ","), "who")
	for i, line := range rows {
		if cells := strings.Split(line, ","); i > 0 && cells[at] != strconv.Itoa(i) {
			t.Errorf("line %d tells a unit: %s", i+1, line)
		}
	}
}

// drawing is a panel of a report: its points, and their sizes.
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
	const boosted = "pgb: {rounds: 6, candidates: 700}\n"
	for _, c := range []struct {
		stages   string
		names    []string
		weighted bool
	}{
		{"post: [pgb, drs]\nevaluate: {test: table.csv}\n" + boosted,
			[]string{"real test rows*", "last generator", "after pgb", "after pgb and drs"}, false},
		{"weights: discriminator\n", []string{"last generator", "weighted (discriminator)"}, true},
		{"post: [pgb]\nweights: logreg-noised\nweighting: {use: resample}\n" + boosted,
			[]string{"last generator", "after pgb", "drawn by weight (logreg-noised)"}, false},
		{"evaluate: {test: table.csv}\n", nil, false},
	} {
		t.Run(c.stages, func(t *testing.T) {
			t.Parallel()
			spec, dir, out := begin(t, runOn("table.csv", steps+c.stages))
			rows, rng := "x,y\n", rand.New(rand.NewPCG(25, 1))
			for range 250 {
				rows += fmt.Sprintf("%.6f,%.6f\n", rng.NormFloat64(), rng.NormFloat64())
			}
			files(t, dir, map[string]string{"table.csv": rows, "schema.yaml": "columns:\n" +
				"  - {name: x, kind: continuous, lower: -5, upper: 5}\n" +
				"  - {name: y, kind: continuous, lower: -5, upper: 5}\n"})
			result, err := Run(t.Context(), spec, Options{Out: out})
			testkit.Must(t, err)
			page := string(testkit.Read(t, result.Outputs["report"]))
			file, err := report.ReadJSON(testkit.Read(t, result.Outputs["report_json"]))
			testkit.Must(t, err)
			names, list := pictures(page)
			if !slices.Equal(names, c.names) || len(file.Points) != len(names) ||
				strings.Contains(page, "NOT PRIVATE") != strings.Contains(c.stages, "evaluate") {
				t.Fatalf("the panels are %q, want %q, %d are in report.json", names, c.names, len(file.Points))
			}
			for i, p := range list {
				want, real := 50, names[i] == "real test rows*"
				if real {
					want = 250
				}
				if last := i == len(list)-1; p.points != want || (p.sizes > 1) != (last && c.weighted) {
					t.Errorf("%s: %d points in %d sizes, want %d points", names[i], p.points, p.sizes, want)
				}
				if got := file.Points[i]; strings.TrimSuffix(names[i], "*") != got.Name || got.Real != real ||
					got.Columns != [2]string{"x", "y"} {
					t.Errorf("report.json says %+v of %s", got, names[i])
				}
			}
			// A new report shows everything that it can, and no real rows unless they are named.
			again, err := results.MakeReport(t.Context(), results.ReportOptions{From: out, Out: t.TempDir()})
			testkit.Must(t, err)
			shown, list := pictures(string(testkit.Read(t, again.Outputs["report"])))
			var want []string
			if n := len(c.names); n > 0 {
				want = []string{"last generator", c.names[n-1]}
			}
			if !slices.Equal(shown, want) || want != nil && list[0].points != 50 {
				t.Errorf("made anew it shows %q, %v", shown, list)
			}
		})
	}
}

// A run on idx files at two nodes ends in idx files, a picture and a small report
// that has the figures of images, and the report can be made anew.
func TestARunOfImages(t *testing.T) {
	t.Parallel()
	spec, dir, out := begin(t, runOn("the-images.idx", gradients)+
		"evaluate: {test: the-images.idx, train: the-images.idx}\n")
	result, err := Run(t.Context(), spec, Options{Out: out})
	testkit.Must(t, err)
	check(t, spec, result, out, map[string]int{"class-counts": 1, "gradient-sums": 5})
	if got := strings.Join(slices.Sorted(maps.Keys(result.Outputs)),
		" "); got != "certificate images labels ledger manifest model report report_json "+
		"report_md samples shared signatures synthetic" {
		t.Errorf("outputs %s", got)
	}
	for name, want := range map[string]string{"images": "synthetic-images-idx3-ubyte.gz",
		"labels": "synthetic-labels-idx1-ubyte.gz", "samples": "samples.png"} {
		if filepath.Base(result.Outputs[name]) != want {
			t.Errorf("%s are in %s", name, result.Outputs[name])
		}
	}
	if u := result.Utility; len(u) != 1 || u[0].Classifier != "cnn" || u[0].SyntheticAccuracy == nil ||
		u[0].RealAccuracy == nil || u[0].SyntheticAUROC != nil {
		t.Errorf("utility %+v", u)
	}
	schema, err := partition.LoadSchema(filepath.Join(out, "model", "schema.yaml"))
	testkit.Must(t, err)
	images, err := tabular.ReadImages(schema, result.Outputs["images"], tabular.Options{})
	testkit.Must(t, err)
	table, err := tabular.ReadImages(schema, result.Outputs["synthetic"], tabular.Options{})
	testkit.Must(t, err)
	if images.Len() != 50 || !bytes.Equal(images.Pixels, table.Pixels) || !slices.Equal(images.Classes, table.Classes) {
		t.Error("synthetic.csv and the idx files hold other images")
	}
	sheet := testkit.Read(t, result.Outputs["samples"])
	if size, err := png.DecodeConfig(bytes.NewReader(sheet)); err != nil || size.Width != 102 || size.Height != 22 {
		t.Errorf("a sheet of %d x %d (%v)", size.Width, size.Height, err)
	}
	checkImageReport(t, result.Outputs, true)

	public := filepath.Join(dir, "public")
	made, err := results.MakeReport(t.Context(), results.ReportOptions{From: out, Out: public})
	testkit.Must(t, err)
	if made.NotPrivate || made.Utility != nil {
		t.Errorf("without real images: %+v", made)
	}
	checkImageReport(t, made.Outputs, false)
	made, err = results.MakeReport(t.Context(), results.ReportOptions{From: out, Out: public, Test: spec.Evaluate.Test,
		CoinFlips: result.Outputs["images"]})
	testkit.Must(t, err)
	if u := made.Utility; !made.NotPrivate || len(u) != 1 || u[0].SyntheticAccuracy == nil || u[0].RealAccuracy != nil {
		t.Errorf("with real images: %+v", made)
	}
	if text := testkit.Read(t, made.Outputs["report_md"]); !bytes.Contains(text, []byte("coin flips")) {
		t.Error("the report has no coin flips")
	}
}

// checkImageReport looks at the three files of a report of images.
func checkImageReport(t *testing.T, out map[string]string, real bool) {
	t.Helper()
	for name, says := range map[string]string{"report": "Fréchet distance", "report_md": "Fréchet distance",
		"report_json": "accuracy_train_synthetic"} {
		text := string(testkit.Read(t, out[name]))
		if len(text) > 100_000 || strings.Contains(text, "pixel_3") {
			t.Errorf("%s has %d bytes; are there pixels as columns?", name, len(text))
		}
		if strings.Contains(text, "NOT PRIVATE:") != real || strings.Contains(text, says) != real {
			t.Errorf("%s of real images, %v, says NOT PRIVATE, %v, and %q", name, real, !real, says)
		}
		if sheets := strings.Count(text, "data:image/png"); name == "report" &&
			(sheets != 1 && !real || sheets != 2 && real) {
			t.Errorf("%d sheets, real %v", sheets, real)
		}
	}
}
