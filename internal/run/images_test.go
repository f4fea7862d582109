package run

import (
	"bytes"
	"context"
	"encoding/json"
	"image/png"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/conclave-dp/conclave/internal/aggregator"
	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/authority"
	"github.com/conclave-dp/conclave/internal/kinds"
	"github.com/conclave-dp/conclave/internal/node"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/run/results"
	"github.com/conclave-dp/conclave/internal/runfile"
	"github.com/conclave-dp/conclave/internal/student"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/idx"
	"github.com/conclave-dp/conclave/partition/idx/idxtest"
	"github.com/conclave-dp/conclave/partition/tabular"
)

// imageRun is a run of bars with its files, in a folder of a short path: an
// embedded etcd listens on a socket below it.
func imageRun(t *testing.T, more string) (*runfile.Spec, string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "img")
	testkit.Must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	files := map[string][]byte{"schema.yaml": []byte(imageSchema), "run.yaml": []byte(`name: bars
schema: schema.yaml
data:
- {site: north, file: train-images-idx3-ubyte.gz, share: 0.5}
- {site: south, file: train-images-idx3-ubyte.gz, share: 0.5}
privacy: {epsilon: 1, delta: 1e-5}
teachers: 20
release: {rows: 60}
evaluate: {test: test-images.idx, train: train-images-idx3-ubyte.gz}
pategan: {labels: 32, queries: 16, student: {generator_steps: 3}}
embed: {fit: {steps: 50}}
` + more)}
	for name, n := range map[string]int{"train-images-idx3-ubyte.gz": 300, "test-images.idx": 50} {
		labels, err := idx.LabelsPath(name)
		testkit.Must(t, err)
		if files[name], files[labels], err = idx.Encode(idxtest.Bars(n), strings.HasSuffix(name, ".gz")); err != nil {
			t.Fatal(err)
		}
	}
	for name, raw := range files {
		testkit.Must(t, os.WriteFile(filepath.Join(dir, name), raw, 0o600))
	}
	s, err := runfile.Load(filepath.Join(dir, "run.yaml"))
	testkit.Must(t, err)
	return s, dir
}

// imageJob is what Prepare makes, of a pipeline that it refuses for images. That
// pipeline stands for any here: where rows come from does not matter.
func imageJob(t *testing.T, s *runfile.Spec) *Job {
	t.Helper()
	j := &Job{Spec: s}
	var err error
	if j.Schema, err = partition.LoadSchema(s.Schema); err != nil {
		t.Fatal(err)
	}
	if j.Plan, err = NewPlan(s, j.Schema); err != nil {
		t.Fatal(err)
	}
	if j.real, err = results.LoadReal(s.Evaluate, j.Schema); err != nil {
		t.Fatal(err)
	}
	return j
}

// execute runs a job on an aggregator and a node for each site.
func execute(t *testing.T, j *Job, dir, out string) *results.Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	keys := filepath.Join(dir, "certs")
	for _, err := range []error{
		authority.Create(keys), authority.Issue(keys, certs.RoleAggregator, "a", []string{"127.0.0.1"}, time.Hour),
		authority.Issue(keys, certs.RoleStudent, "s", nil, time.Hour),
	} {
		testkit.Must(t, err)
	}
	a := aggregator.DefaultConfig()
	a.Name, a.Listen, a.TLS = "a", "127.0.0.1:0", certs.IssuedFiles(keys, certs.RoleAggregator, "a")
	a.Etcd.Embedded, a.Etcd.Dir = true, filepath.Join(dir, "etcd")
	a.Datasets = []aggregator.DatasetConfig{{Name: "d", SchemaSHA256: j.Schema.SHA256, Unit: "record",
		Budget: privacy.Budget{Epsilon: 1, Delta: 1e-5}}}
	server, err := aggregator.New(ctx, a, aggregator.Options{Logger: zap.NewNop()})
	testkit.Must(t, err)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return server.Serve(ctx) })
	for i, part := range j.Spec.Sites(j.Schema) {
		d := j.Spec.Data[i]
		testkit.Must(t, authority.Issue(keys, certs.RoleNode, d.Site, nil, time.Hour))
		c := node.DefaultConfig()
		c.Aggregator, c.Dataset, c.Site, c.Schema, c.Data, c.Share = server.Addr().String(), "d", d.Site, j.Spec.Schema,
			d.File, part
		c.Teachers, c.State = j.Spec.Teachers/2, filepath.Join(dir, "node-"+d.Site)
		c.TLS = certs.IssuedFiles(keys, certs.RoleNode, d.Site)
		n, err := node.New(c, kinds.All(), zap.NewNop())
		testkit.Must(t, err)
		group.Go(func() error { return n.Run(ctx) })
	}
	c := student.DefaultConfig()
	c.Aggregator, c.Dataset, c.Run, c.TLS = server.Addr().String(), "d", j.Spec.Path,
		certs.IssuedFiles(keys, certs.RoleStudent, "s")
	client, err := student.Dial(c, zap.NewNop())
	testkit.Must(t, err)
	defer client.Close()
	result, err := j.Execute(ctx, Options{Client: client, Dataset: "d", Out: out})
	if err != nil {
		t.Error(err)
	}
	cancel()
	_ = group.Wait()
	if err := server.Close(); err != nil || t.Failed() {
		t.Fatal(err)
	}
	return result
}

// A run on idx files at two nodes ends in idx files, a picture and a small report
// that has the figures of images, and the report can be made anew.
func TestARunOfImages(t *testing.T) {
	s, dir := imageRun(t, "")
	out := filepath.Join(dir, "out")
	result := execute(t, imageJob(t, s), dir, out)
	if got := strings.Join(slices.Sorted(maps.Keys(result.Outputs)),
		" "); got != "certificate images labels ledger model report report_json report_md samples synthetic" {
		t.Errorf("outputs %s", got)
	}
	for name, want := range map[string]string{"images": "synthetic-images-idx3-ubyte.gz",
		"labels": "synthetic-labels-idx1-ubyte.gz", "samples": "samples.png"} {
		if filepath.Base(result.Outputs[name]) != want {
			t.Errorf("%s are in %s", name, result.Outputs[name])
		}
	}
	raw, err := json.Marshal(result.Utility)
	if err != nil || !strings.HasPrefix(string(raw), `[{"classifier":"cnn","synthetic_accuracy":`) ||
		!strings.Contains(string(raw), `"real_accuracy":`) || strings.Contains(string(raw), "auroc") {
		t.Errorf("utility %s (%v)", raw, err)
	}
	schema, err := partition.LoadSchema(filepath.Join(out, "model", "schema.yaml"))
	testkit.Must(t, err)
	images, err := tabular.ReadImages(schema, result.Outputs["images"], tabular.Options{})
	testkit.Must(t, err)
	table, err := tabular.ReadImages(schema, result.Outputs["synthetic"], tabular.Options{})
	testkit.Must(t, err)
	if images.Len() != 60 || !bytes.Equal(images.Pixels, table.Pixels) || !slices.Equal(images.Classes, table.Classes) {
		t.Error("synthetic.csv and the idx files hold other images")
	}
	sheet := testkit.Read(t, result.Outputs["samples"])
	if size, err := png.DecodeConfig(bytes.NewReader(sheet)); err != nil || size.Width != 62 || size.Height != 14 {
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
	made, err = results.MakeReport(t.Context(), results.ReportOptions{From: out, Out: public, Test: s.Evaluate.Test,
		CoinFlips: result.Outputs["images"]})
	testkit.Must(t, err)
	if u := made.Utility; !made.NotPrivate || len(u) != 1 || u[0].SyntheticAccuracy == nil || u[0].RealAccuracy != nil {
		t.Errorf("with real images: %+v", made)
	}
	if text, err := os.ReadFile(made.Outputs["report_md"]); err != nil ||
		!strings.Contains(string(text), "coin flips") {
		t.Errorf("the report has no coin flips (%v)", err)
	}
}

// checkImageReport looks at the three files of a report of images.
func checkImageReport(t *testing.T, out map[string]string, real bool) {
	t.Helper()
	for _, name := range []string{"report", "report_md", "report_json"} {
		raw := testkit.Read(t, out[name])
		text := string(raw)
		if len(text) > 100_000 || strings.Contains(text, "pixel_3") {
			t.Errorf("%s has %d bytes; are there pixels as columns?", name, len(text))
		}
		if got := strings.Contains(text, "NOT PRIVATE:"); got != real {
			t.Errorf("%s: NOT PRIVATE: %v, want %v", name, got, real)
		}
		if name == "report_json" {
			if strings.Contains(text, "accuracy_train_synthetic") != real {
				t.Errorf("%s: real %v: %s", name, real, text)
			}
			continue
		}
		if strings.Contains(text, "Fréchet distance") != real {
			t.Errorf("%s: real %v, and the distance", name, real)
		}
		if sheets := strings.Count(text, "data:image/png"); name == "report" &&
			(sheets != 1 && !real || sheets != 2 && real) {
			t.Errorf("%d sheets, real %v", sheets, real)
		}
	}
}

// What cannot work with images is said before anything is started.
func TestImagesThatCannotWork(t *testing.T) {
	gpate := func(s *runfile.Spec) { s.Pipeline = "gpate" }
	for name, c := range map[string]struct {
		change func(*runfile.Spec)
		says   string
	}{
		"pategan": {func(s *runfile.Spec) {
			s.Pipeline = "pategan"
		}, "images are not available with pategan; use embed, dpgan or gpate"},
		"models": {func(s *runfile.Spec) { gpate(s); s.Evaluate.Models = []string{"all"} }, "evaluate.models"},
		"one":    {func(s *runfile.Spec) { gpate(s); s.Release.Rows = 1 }, "release.rows: 1 image cannot be compared"},
	} {
		s, _ := imageRun(t, "")
		c.change(s)
		if _, err := s.LoadSchema(); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: error %v, want %q", name, err, c.says)
		}
	}
	s, dir := imageRun(t, "")
	gpate(s)
	schema, err := s.LoadSchema()
	testkit.Must(t, err)
	few := filepath.Join(dir, "few-images")
	a, b, err := idx.Encode(idxtest.Bars(3), false)
	testkit.Must(t, err)
	for path, raw := range map[string][]byte{few: a, filepath.Join(dir, "few-labels"): b} {
		testkit.Must(t, os.WriteFile(path, raw, 0o600))
	}
	for _, c := range []struct {
		e    results.Evaluate
		says string
	}{
		{results.Evaluate{Test: few}, "fewer than 4 images"},
		{results.Evaluate{Test: few, Train: few}, ""},
		{results.Evaluate{Test: filepath.Join(dir, "none-images")}, "images for the report: "},
		{results.Evaluate{Test: few, Train: few, CoinFlips: filepath.Join(dir, "schema.yaml")}, `no "images"`},
	} {
		if _, err := results.LoadReal(c.e, schema); (err == nil) != (c.says == "") ||
			err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: error %v, want %q", c.e, err, c.says)
		}
	}
}
