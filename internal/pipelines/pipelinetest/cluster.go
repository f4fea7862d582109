package pipelinetest

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/conclave-dp/conclave/internal/ledger"
	"github.com/conclave-dp/conclave/internal/local"
	"github.com/conclave-dp/conclave/internal/run"
	"github.com/conclave-dp/conclave/internal/runfile"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/idx"
)

// A stopped run on a cluster of two sites resumes, ends with everything that it planned, and asks nothing
// twice.
func (s *suite) run(t *testing.T) {
	if s.small == "" {
		t.Fatalf("give the suite a small section of %s", s.p.Name)
	}
	spec, out := cluster(t, fmt.Sprintf("pipeline: %[1]s\n%[1]s: %[2]s\n", s.p.Name, s.small))
	schema, err := spec.LoadSchema()
	testkit.Must(t, err)
	p, err := run.NewPlan(spec, schema)
	testkit.Must(t, err)
	releases := len(p.First()) + p.Rounds
	stopped, stop := context.WithCancel(testkit.Within(t))
	defer stop()
	_, err = local.Run(stopped, spec, local.Options{Out: out, Watch: func(status run.Status) {
		if status.Round >= max(1, min(2, releases-1)) {
			stop()
		}
	}})
	if releases == 1 && p.Rounds == 1 { // it ends before it can be stopped
		testkit.Must(t, err)
		testkit.Must(t, os.Remove(filepath.Join(out, "certificate.json")))
	} else if !errors.Is(err, context.Canceled) {
		t.Fatalf("the run that was stopped ended with %v", err)
	}
	result, err := local.Run(testkit.Within(t), spec, local.Options{Out: out})
	testkit.Must(t, err)
	if result.Rows != 40 || !(result.EpsilonSpent > 0 && result.EpsilonSpent <= spec.Privacy.Epsilon) {
		t.Errorf("%d rows for epsilon %v of %v", result.Rows, result.EpsilonSpent, spec.Privacy.Epsilon)
	}
	file, err := os.Open(result.Outputs["ledger"])
	testkit.Must(t, err)
	defer file.Close()
	verified, err := ledger.Verify(file) // no round is asked twice
	testkit.Must(t, err)
	got := verified.Runs[spec.Name]
	if got.Releases != releases || !got.Closed || !slices.Equal(got.Plan, p.Planned()) {
		t.Errorf("the ledger has %d releases of %v, closed %v; want %d of %v", got.Releases, got.Plan, got.Closed,
			releases, p.Planned())
	}
	checkCertificate(t, s.p.Name, result.Outputs["certificate"], result.Outputs["ledger"])
	checkSpelling(t, result.Outputs["synthetic"])
	s.checkModel(t, result.Outputs["model"], schema)
}

// codes are the codes of the site's list.
var codes = []string{"I20.0", "I20.1", "I21", "I25.9", "J45", "J46"}

// checkSpelling requires that each row has dates in the schema's formats, codes of the list and an identifier.
func checkSpelling(t *testing.T, path string) {
	t.Helper()
	rows, err := csv.NewReader(bytes.NewReader(testkit.Read(t, path))).ReadAll()
	testkit.Must(t, err)
	for i, row := range rows[1:] {
		if _, err := time.Parse("02.01.2006", row[3]); err != nil {
			t.Errorf("row %d: %v", i+1, err)
		}
		if seen, err := time.Parse("2006-01-02 15:04", row[4]); err != nil || seen.Minute() > 0 {
			t.Errorf("row %d is seen at %s (%v)", i+1, row[4], err)
		}
		if !slices.Contains(codes, row[5]) || row[6] != fmt.Sprintf("P-%03d", i+1) {
			t.Errorf("row %d has the code %q and the identifier %q", i+1, row[5], row[6])
		}
	}
	if len(rows) != 41 {
		t.Errorf("%d lines", len(rows))
	}
}

// cluster makes a small run with these lines in its run.yaml, in a folder with a short path, because the
// embedded etcd listens on a Unix socket in it.
func cluster(t *testing.T, lines string) (spec *runfile.Spec, out string) {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	var rows strings.Builder
	rows.WriteString("age,since,kind,admitted,seen,icd,id,label\n")
	start := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range 300 {
		label := rng.IntN(2)
		age, kind := 20+40*float64(label)+20*rng.Float64(), "yz"[rng.IntN(2)]
		if label == 1 {
			kind = "xy"[rng.IntN(2)]
		}
		admitted := start.AddDate(0, 0, rng.IntN(900))
		seen := admitted.Add(time.Duration(rng.IntN(100*24)) * time.Hour)
		fmt.Fprintf(&rows, "%.2f,%d,%c,%s,%s,%s,patient %d,%d\n", age, int(age*rng.Float64()), kind,
			admitted.Format("02.01.2006"), seen.Format("2006-01-02 15:04"), codes[rng.IntN(len(codes))], i, label)
	}
	return written(t, "rows.csv", lines, map[string]string{
		"schema.yaml": tableSchema, "rows.csv": rows.String(), "icd.csv": "code\n" + strings.Join(codes, "\n"),
	})
}

// clusterOfImages is [cluster] for images of 8 x 8 pixels, whose bright half is their class.
func clusterOfImages(t *testing.T, lines string) (spec *runfile.Spec, out string) {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	x := &idx.Images{Shape: partition.Image{Height: 8, Width: 8, Channels: 1}}
	for i := range 300 {
		for p := range 64 {
			v := rng.IntN(80)
			if i%2 == 0 && p%8 < 4 || i%2 == 1 && p/8 < 4 {
				v += 170
			}
			x.Pixels = append(x.Pixels, byte(v))
		}
		x.Classes = append(x.Classes, i%2)
	}
	images, labels, err := idx.Encode(x, false)
	testkit.Must(t, err)
	return written(t, "the-images.idx", lines, map[string]string{
		"schema.yaml": imageSchema, "the-images.idx": string(images), "the-labels.idx": string(labels),
	})
}

const imageSchema = `name: squares
label: label
format: idx
image: {height: 8, width: 8, channels: 1}
columns:
  - {name: label, kind: categorical, categories: [left, upper]}
  - {name: pixel, kind: integer, lower: 0, upper: 255, repeat: 64}
`

// written writes the files of a run that reads data.
func written(t *testing.T, data, lines string, files map[string]string) (spec *runfile.Spec, out string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "pt")
	testkit.Must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	files["run.yaml"] = fmt.Sprintf(`name: suite
schema: schema.yaml
data: [{site: north, file: %[1]s, share: 0.5}, {site: south, file: %[1]s, share: 0.5}]
privacy: {epsilon: 4, delta: 1e-5}
teachers: 10
release: {rows: 40}
`, data) + lines
	for name, text := range files {
		testkit.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	spec, err = runfile.Load(filepath.Join(dir, "run.yaml"))
	testkit.Must(t, err)
	return spec, filepath.Join(dir, "out")
}
