package local

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/conclave-dp/conclave/internal/certificate"
	"github.com/conclave-dp/conclave/internal/ledger"
	"github.com/conclave-dp/conclave/internal/run"
	"github.com/conclave-dp/conclave/internal/run/results"
	"github.com/conclave-dp/conclave/internal/runfile"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// stagedRun is a small run of a pipeline with the stages that lines names.
func stagedRun(pipeline, lines string) string {
	text := strings.Replace(smallRun, "pipeline: pategan", "pipeline: "+pipeline, 1)
	switch pipeline {
	case "dpgan":
		text = strings.Replace(text, smallOptions, "dpgan: {steps: 6, student: {hidden: 8, batch: 20, steps: 2}}", 1)
	case "embed":
		text = strings.Replace(text, "warm_start: {embed: 0}\n", "", 1)
		text = strings.Replace(text, smallOptions,
			"embed: {features: {waves: 10, bins: 4}, fit: {steps: 10, batch: 32}, student: {hidden: 8}}", 1)
	}
	return text + lines
}

// published checks that a run has a certificate that its ledger bears out, within the budget
// of run and dataset, and returns the kinds of its releases with their numbers.
func published(t *testing.T, result *results.Result) map[string]int {
	t.Helper()
	raw := testkit.Read(t, result.Outputs["ledger"])
	verified, err := ledger.VerifyStrict(bytes.NewReader(raw))
	testkit.Must(t, err)
	if got := verified.Runs["small"]; !got.Closed || got.Price.Epsilon > 1 || got.Price.Epsilon < 0.5 {
		t.Errorf("the ledger has %+v", got)
	}
	certificate, err := certificate.Read(result.Outputs["certificate"])
	testkit.Must(t, err)
	if err := certificate.Verify(bytes.NewReader(raw)); err != nil {
		t.Error(err)
	}
	if result.Rows != 100 || result.EpsilonSpent > 1 || certificate.EpsilonSpent != result.EpsilonSpent {
		t.Errorf("%d rows for epsilon %v, the certificate says %v",
			result.Rows, result.EpsilonSpent, certificate.EpsilonSpent)
	}
	return kindsOf(t, raw)
}

func kindsOf(t *testing.T, ledger []byte) map[string]int {
	t.Helper()
	kinds := map[string]int{}
	for _, kind := range []string{"class-counts", "embedding", "votes", "discriminator", "scores", "fit"} {
		kinds[kind] = len(regexp.MustCompile(`"planned":[0-9]+,"kind":"`+kind+`"`).FindAll(ledger, -1))
	}
	return kinds
}

// weightsIn reads the column weight of a table of rows; nil without one.
func weightsIn(t *testing.T, path string) (weights []float64, rows int) {
	t.Helper()
	f, err := os.Open(path)
	testkit.Must(t, err)
	defer f.Close()
	records, err := csv.NewReader(f).ReadAll()
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

// Each pipeline with the stages that go with it, by teachers and by coin: certificate and
// ledger cover training and stages together, and the budget holds over both.
func TestStagesEndToEnd(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text     string
		kinds    map[string]int
		weighted bool
	}{
		"pategan, pgb, drs": {
			stagedRun("pategan", "post: [pgb, drs]\npgb: {rounds: 6, candidates: 400}\n"),
			map[string]int{"class-counts": 1, "votes": 8, "scores": 6}, false,
		},
		"dpgan, pgb": {
			stagedRun("dpgan", "post: [pgb]\npgb: {rounds: 6, candidates: 400, complements: false}\n"),
			map[string]int{"class-counts": 1, "discriminator": 6, "scores": 6}, false,
		},
		"embed, logreg-debiased": {
			stagedRun("embed", "weights: logreg-debiased\n"), map[string]int{"embedding": 1, "fit": 1}, true,
		},
		"pategan, dp-mlp": {
			stagedRun("pategan", "weights: dp-mlp\nweighting: {mlp: {steps: 5}}\n"),
			map[string]int{"class-counts": 1, "votes": 8, "discriminator": 5}, true,
		},
		"pategan, drs, laplace, resampled": {
			stagedRun("pategan", "post: [drs]\nweights: logreg-noised\nweighting: {noise: laplace, use: "+
				"resample, pool: 3}\n"),
			map[string]int{"class-counts": 1, "votes": 8, "fit": 1}, false,
		},
		"pategan, discriminator": {
			stagedRun("pategan", "weights: discriminator\nweighting: {bound: 2}\n"),
			map[string]int{"class-counts": 1, "votes": 8}, true,
		},
	} {
		for _, coin := range []bool{false, true} {
			if coin && name != "dpgan, pgb" && name != "pategan, drs, laplace, resampled" {
				continue // the suite of kinds has the baseline of each
			}
			if testing.Short() && (coin || name != "pategan, pgb, drs") {
				continue
			}
			t.Run(name, func(t *testing.T) {
				dir := folder(t)
				out := filepath.Join(dir, "out")
				result, err := Run(t.Context(), load(t, dir, c.text), Options{Out: out, Coin: coin})
				testkit.Must(t, err)
				for kind, n := range published(t, result) {
					if n != c.kinds[kind] {
						t.Errorf("coin %v: %d releases of %s, want %d", coin, n, kind, c.kinds[kind])
					}
				}
				weights, rows := weightsIn(t, result.Outputs["synthetic"])
				if rows != 100 || (weights != nil) != c.weighted {
					t.Errorf("coin %v: %d rows, weights %v", coin, rows, weights)
				}
				if len(result.Notes) == 0 || strings.Contains(strings.Join(result.Notes, ""), "NOT PRIVATE") ||
					result.NotPrivate {
					t.Errorf("notes %q", result.Notes)
				}
			})
		}
	}
}

// stoppedAt runs until a stage has come so far.
func stoppedAt(t *testing.T, spec *runfile.Spec, out, of string, at int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := Run(ctx, spec, Options{Out: out, Watch: func(s run.Status) {
		if s.Of == of && s.Round == at {
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("the interrupted run ended with %v, want context.Canceled", err)
	}
}

// A student that is killed in the middle of a stage goes on: what was released is not paid
// for again, and the rows are those of a run that was not interrupted (selections and sums
// are drawn anew where they were not released, so that only what was released is compared).
func TestAnInterruptedStageGoesOn(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text, of string
		at       int
		kind     string
		total    int
	}{
		"selections": {stagedRun("pategan", "post: [pgb]\npgb: {rounds: 6, candidates: 400}\n"), "selection", 3,
			"scores", 6},
		"dp-mlp": {stagedRun("pategan", "weights: dp-mlp\nweighting: {mlp: {steps: 5}}\n"), "weighting step", 2,
			"discriminator", 5},
	} {
		if testing.Short() && name != "dp-mlp" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			dir := folder(t)
			spec, out := load(t, dir, c.text), filepath.Join(dir, "out")
			stoppedAt(t, spec, out, c.of, c.at)
			before := stored(t, out)
			released := 0
			for _, e := range before {
				if e.Type == ledger.EntryRelease && e.Kind == c.kind {
					released++
				}
			}
			if released < c.at || released > c.at+2 {
				t.Fatalf("%d of %s were released", released, c.kind)
			}
			result, err := Run(t.Context(), spec, Options{Out: out})
			testkit.Must(t, err)
			if got := published(t, result); got[c.kind] != c.total || got["votes"] != 8 {
				t.Errorf("releases %v", got)
			}
			ledger := testkit.Read(t, result.Outputs["ledger"])
			checkBeginsWith(t, ledger, before)
			// Closed, and its files lost: the same rows from the same releases.
			rows := testkit.Read(t, result.Outputs["synthetic"])
			testkit.Must(t, os.Remove(result.Outputs["certificate"]))
			again, err := Run(t.Context(), spec, Options{Out: out})
			testkit.Must(t, err)
			if got, err := os.ReadFile(again.Outputs["synthetic"]); err != nil || !bytes.Equal(got, rows) {
				t.Errorf("the synthetic rows changed (%v)", err)
			}
			if got, err := os.ReadFile(again.Outputs["ledger"]); err != nil || !bytes.Equal(got, ledger) {
				t.Errorf("the ledger changed (%v)", err)
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
	for name, lines := range map[string]string{
		"weights":  "weights: logreg\n",
		"boosting": "post: [pgb]\npgb: {private: false, rounds: 6, candidates: 400}\n",
	} {
		t.Run(name, func(t *testing.T) {
			dir := folder(t)
			out := filepath.Join(dir, "out")
			text := strings.Replace(stagedRun("pategan", lines), "release: {rows: 100}",
				"release: {rows: 100, private: false}", 1)
			text += "evaluate: {train: train.csv.gz, test: test.csv.gz, models: [logistic regression]}\n"
			result, err := Run(t.Context(), load(t, dir, text), Options{Out: out})
			testkit.Must(t, err)
			if !result.NotPrivate || !strings.Contains(strings.Join(result.Notes, ""), "NOT PRIVATE") ||
				result.Outputs["synthetic"] != "" || result.Outputs["certificate"] != "" {
				t.Errorf("result %+v", result)
			}
			if _, rows := weightsIn(t, filepath.Join(out, "NOT-PRIVATE.csv")); rows != 100 {
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

// Where a unit has several records the stages count units, and the released rows have weights
// and made-up units.
func TestStagesOfUnitsWithSeveralRecords(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes whole runs, as others do")
	}
	dir := folder(t)
	path := filepath.Join(dir, "example", "schema.yaml")
	schema := testkit.Read(t, path)
	column := `{name: "kappa", kind: continuous, lower: 0, upper: 25}`
	if !bytes.Contains(schema, []byte(column)) {
		t.Fatal("the example has another column")
	}
	if err := os.WriteFile(path, bytes.Replace(schema, []byte(column), []byte(`{name: "kappa", role: unit}`), 1),
		0o644); err != nil {
		t.Fatal(err)
	}
	text := stagedRun("pategan", "post: [pgb]\npgb: {rounds: 5, candidates: 400}\nweights: logreg-debiased\n")
	text = strings.Replace(text, "delta: 1e-5}", "delta: 1e-5, unit: kappa}", 1)
	// Both sites may hold records of a unit where a file is divided, so there is one.
	text = strings.Replace(text,
		"  - {site: north, file: train.csv.gz, share: 0.5}\n  - {site: south, file: train.csv.gz, share: 0.5}\n",
		"  - {site: north, file: train.csv.gz}\n", 1)
	result, err := Run(t.Context(), load(t, dir, text), Options{Out: filepath.Join(dir, "out")})
	testkit.Must(t, err)
	if got := published(t, result); got["scores"] != 5 || got["fit"] != 1 {
		t.Errorf("releases %v", got)
	}
	raw := testkit.Read(t, result.Outputs["synthetic"])
	if weights, rows := weightsIn(t, result.Outputs["synthetic"]); rows != 100 || len(weights) != 100 {
		t.Errorf("%d rows, %d weights", rows, len(weights))
	}
	for i, line := range strings.Split(strings.TrimSpace(string(raw)), "\n") {
		if cells := strings.Split(line, ","); i > 0 && cells[3] != strconv.Itoa(i) || i == 0 && cells[3] != "kappa" {
			t.Errorf("line %d tells a unit: %s", i+1, line)
		}
	}
}
