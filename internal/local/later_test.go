package local

import (
	"bytes"
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/conclave-dp/conclave/internal/certificate"
	"github.com/conclave-dp/conclave/internal/ledger"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/run"
	"github.com/conclave-dp/conclave/internal/run/results"
	"github.com/conclave-dp/conclave/internal/student"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/tabular"
)

// runWithRoom leaves some of its dataset's budget to stages. Its student learns enough to
// tell rows apart.
var runWithRoom = strings.NewReplacer("privacy: {epsilon: 1, delta: 1e-5}",
	"privacy: {epsilon: 1, delta: 1e-5, dataset: {epsilon: 1.5}}", ", step: 0.01", "").Replace(smallRun) +
	"pgb: {rounds: 5, candidates: 200}\nweighting: {mlp: {hidden: 4, steps: 3, rate: 0.2}}\n"

// verifiedFiles reads certificate and ledger of a result, and checks one against the other.
func verifiedFiles(t *testing.T, result *results.Result) (certificate.Certificate, ledger.Verification) {
	t.Helper()
	raw := testkit.Read(t, result.Outputs["ledger"])
	c, err := certificate.Read(result.Outputs["certificate"])
	testkit.Must(t, err)
	if err := c.Verify(bytes.NewReader(raw)); err != nil {
		t.Error(err)
	}
	verified, err := ledger.VerifyStrict(bytes.NewReader(raw))
	if err != nil {
		t.Error(err)
	}
	return c, verified
}

// Stages follow a finished run on its own cluster and ledger, within what its dataset has
// left, and their certificates speak of all that their rows are made of.
func TestStagesOfAFinishedRun(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	spec := load(t, dir, runWithRoom)
	from := filepath.Join(dir, "run")
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	if _, err := Run(ctx, spec, Options{Out: from}); err != nil {
		t.Fatal(err)
	}
	before := testkit.Read(t, filepath.Join(from, "ledger.jsonl"))
	stage := func(name string, o run.LaterOptions) (*results.Result, error) {
		o.From = from
		later, err := run.NewLater(o)
		if err != nil {
			return nil, err
		}
		return RunLater(ctx, later, from, Options{Out: filepath.Join(dir, name)})
	}

	boosted, err := stage("boosted", run.LaterOptions{Post: []string{"pgb"}, Epsilon: 0.1})
	testkit.Must(t, err)
	c, verified := verifiedFiles(t, boosted)
	if total := verified.Runs["small.pgb"]; total.Releases != 5 || !total.Closed ||
		total.Events[0].Kind != privacy.Exponential || total.Price.Epsilon > 0.1 {
		t.Errorf("the stage's run is %+v", total)
	}
	if c.Run != "small.pgb" || !slices.Equal(c.Earlier, []string{"small"}) || c.Epsilon != 1.5 ||
		!(c.EpsilonSpent > verified.Runs["small"].Price.Epsilon) {
		t.Errorf("certificate %+v", c)
	}

	weighted, err := stage("weighted", run.LaterOptions{Weights: "logreg-debiased", Epsilon: 0.1})
	testkit.Must(t, err)
	if c, verified = verifiedFiles(t, weighted); len(verified.Runs) != 3 || c.Run != "small.logreg-debiased" {
		t.Errorf("certificate %+v", c)
	}
	schema, err := partition.LoadSchema(spec.Schema)
	testkit.Must(t, err)
	table, err := tabular.Read(schema, weighted.Outputs["synthetic"], tabular.Options{Weights: true})
	if err != nil || len(table.Weights()) != 100 {
		t.Errorf("%d weights, %v", len(table.Weights()), err)
	}

	// Free ones go on from the run alone, and leave its ledger as it was.
	free, err := stage("free", run.LaterOptions{Post: []string{"drs"}})
	testkit.Must(t, err)
	if c, _ = verifiedFiles(t, free); c.Run != "small" || c.Earlier != nil {
		t.Errorf("certificate %+v", c)
	}
	if after, err := os.ReadFile(free.Outputs["ledger"]); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the ledger changed: %v", err)
	}

	// What is left does not suffice: nothing is asked, and no run is opened.
	_, err = stage("dear", run.LaterOptions{Weights: "logreg-noised", Epsilon: 1.4})
	if !errors.Is(err, student.ErrOverBudget) && !errors.Is(err, student.ErrRefused) {
		t.Errorf("more than is left: %v", err)
	}
	again, err := stage("again", run.LaterOptions{Post: []string{"pgb"}, Epsilon: 0.05, Name: "small.again"})
	testkit.Must(t, err)
	if _, verified = verifiedFiles(t, again); len(verified.Runs) != 4 {
		t.Errorf("%d runs in the ledger, want 4: the refused one has none", len(verified.Runs))
	}

	for want, o := range map[string]run.LaterOptions{
		"has a price":     {Post: []string{"pgb"}},
		"costs nothing":   {Post: []string{"drs"}, Epsilon: 0.1},
		"is NOT PRIVATE":  {Weights: "logreg"},
		"is not a method": {Weights: "magic", Epsilon: 0.1},
		"is not a stage":  {Post: []string{"magic"}, Epsilon: 0.1},
		"no such file":    {Post: []string{"drs"}, Run: filepath.Join(dir, "nothing.yaml")},
		"epsilon NaN":     {Post: []string{"pgb"}, Epsilon: math.NaN()},
		"epsilon +Inf":    {Post: []string{"pgb"}, Epsilon: math.Inf(1)},
		"delta NaN":       {Post: []string{"pgb"}, Epsilon: 0.1, Delta: math.NaN()},
		"delta 1;":        {Post: []string{"pgb"}, Epsilon: 0.1, Delta: 1},
		"is not a name":   {Post: []string{"pgb"}, Epsilon: 0.1, Name: "Not A Name"},
	} {
		if _, err := stage("refused", o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v; want %q", o, err, want)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "refused")); err == nil {
		t.Error("a refused stage left a folder")
	}
	if _, err := run.NewLater(run.LaterOptions{From: filepath.Join(dir, "boosted"),
		Post: []string{"drs"}}); err == nil || !strings.Contains(err.Error(), "holds stages of run") {
		t.Errorf("stages of stages: %v", err)
	}
	if _, err := run.NewLater(run.LaterOptions{From: filepath.Join(dir, "free"), Post: []string{"drs"}}); err == nil ||
		!strings.Contains(err.Error(), "holds free stages (small.drs) of run") {
		t.Errorf("stages of free stages: %v", err)
	}
	compared := filepath.Join(dir, "compared")
	testkit.Must(t, os.MkdirAll(compared, 0o755))
	testkit.Must(t, os.WriteFile(filepath.Join(compared, "NOT-PRIVATE.csv"), nil, 0o644))
	if _, err := run.NewLater(run.LaterOptions{From: compared, Post: []string{"drs"}}); err == nil ||
		!strings.Contains(err.Error(), "holds a comparison, NOT PRIVATE") {
		t.Errorf("stages of a comparison: %v", err)
	}
	if _, err := run.NewLater(run.LaterOptions{From: dir, Post: []string{"drs"}}); err == nil {
		t.Error("stages of nothing")
	}
}

// What was trained is paid for: where a stage fails, its rows are written without the stage,
// and stages can be tried on them.
func TestAFailedStageLeavesWhatWasTrained(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes whole runs, as others do")
	}
	dir := folder(t)
	spec := load(t, dir, runWithRoom+"post: [drs]\ndrs: {percentile: 0, tries: 1}\n")
	from := filepath.Join(dir, "run")
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	if _, err := Run(ctx, spec, Options{Out: from}); err == nil ||
		!strings.Contains(err.Error(), "too few candidates") || !strings.Contains(err.Error(), "without the stages") {
		t.Fatalf("a stage that cannot end: %v", err)
	}
	result := &results.Result{Outputs: map[string]string{"ledger": filepath.Join(from, "ledger.jsonl"),
		"certificate": filepath.Join(from, "certificate.json")}}
	if c, verified := verifiedFiles(t, result); c.Rows != 100 || !verified.Runs["small"].Closed {
		t.Errorf("certificate %+v", c)
	}
	// Whoever changes what the run was changes nothing of what is said of it.
	other := strings.NewReplacer("pipeline: pategan", "pipeline: dpgan",
		"teachers: 30", "teachers: 500").Replace(runWithRoom)
	path := filepath.Join(dir, "example", "other.yaml")
	testkit.Must(t, os.WriteFile(path, []byte(other), 0o644))
	out := filepath.Join(dir, "weighted")
	later, err := run.NewLater(run.LaterOptions{From: from, Run: path, Weights: "discriminator"})
	testkit.Must(t, err)
	again, err := RunLater(ctx, later, from, Options{Out: out})
	testkit.Must(t, err)
	if c, _ := verifiedFiles(t, again); c.Pipeline != "pategan" || c.Teachers != 30 {
		t.Errorf("certificate %+v", c)
	}
	// A folder is that of one run.
	testkit.Must(t, os.Remove(filepath.Join(out, "certificate.json")))
	boost, err := run.NewLater(run.LaterOptions{From: from, Post: []string{"pgb"}, Epsilon: 0.1})
	testkit.Must(t, err)
	if _, err := RunLater(ctx, boost, from, Options{Out: out}); err == nil ||
		!strings.Contains(err.Error(), "holds what was begun of run") {
		t.Errorf("another run's folder: %v", err)
	}
}

// What boosting was paid for is not thrown away where the rejection after it fails: its rows
// are written, by a run and by stages of their own, and what was spent is told.
func TestAFailedRejectionLeavesWhatWasBoosted(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes whole runs, as others do")
	}
	dir := folder(t)
	failing := runWithRoom + "post: [pgb, drs]\ndrs: {percentile: 0, tries: 1}\n"
	spec := load(t, dir, failing)
	from := filepath.Join(dir, "run")
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	if _, err := Run(ctx, spec, Options{Out: from}); err == nil ||
		!strings.Contains(err.Error(), "too few candidates") ||
		!strings.Contains(err.Error(), "are of the stages before it, and epsilon") {
		t.Fatalf("a rejection that cannot end: %v", err)
	}
	boosted := func(dir string, runs int) {
		t.Helper()
		result := &results.Result{Outputs: map[string]string{"ledger": filepath.Join(dir, "ledger.jsonl"),
			"certificate": filepath.Join(dir, "certificate.json")}}
		if c, verified := verifiedFiles(t, result); c.Rows != 100 || len(verified.Runs) != runs {
			t.Errorf("%d runs, certificate %+v", len(verified.Runs), c)
		}
		page, err := os.ReadFile(filepath.Join(dir, "report.md"))
		if err != nil || !bytes.Contains(page, []byte("Boosting weighted 200 records")) ||
			!bytes.Contains(page, []byte("the rows are as they were before it")) {
			t.Errorf("%s (%v)", page, err)
		}
	}
	boosted(from, 1)

	out := filepath.Join(dir, "again")
	later, err := run.NewLater(run.LaterOptions{From: from, Post: []string{"pgb", "drs"}, Epsilon: 0.2})
	testkit.Must(t, err)
	if _, err := RunLater(ctx, later, from, Options{Out: out}); err == nil ||
		!strings.Contains(err.Error(), "of the stage's 0.2 is spent; the rows in "+out+" are of the stages before it") {
		t.Fatalf("stages whose rejection cannot end: %v", err)
	}
	boosted(out, 2)

	// A run.yaml of other data is not that of the run.
	schema := testkit.Read(t, spec.Schema)
	if err := os.WriteFile(filepath.Join(filepath.Dir(spec.Schema), "other-schema.yaml"), append(schema, '\n'),
		0o644); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(filepath.Dir(spec.Path), "other.yaml")
	if err := os.WriteFile(other, []byte(strings.Replace(failing, "schema.yaml", "other-schema.yaml", 1)),
		0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := run.NewLater(run.LaterOptions{From: from, Run: other, Post: []string{"drs"}}); err == nil ||
		!strings.Contains(err.Error(), "which is not that of the run in") {
		t.Errorf("another schema: %v", err)
	}
}
