package local

import (
	"bytes"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/run"
	"github.com/conclave-dp/conclave/internal/run/results"
	"github.com/conclave-dp/conclave/internal/runfile"
	"github.com/conclave-dp/conclave/internal/student"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/tabular"
)

// runWithRoom leaves some of its dataset's budget to stages. Its student learns enough to
// tell rows apart.
var runWithRoom = runOn("table.csv", "privacy: {epsilon: 1, delta: 1e-5, dataset: {epsilon: 1.5}}\n"+
	strings.Replace(votes, ", step: 0.01", "", 1)+
	"pgb: {rounds: 5, candidates: 200}\nweighting: {mlp: {hidden: 4, steps: 3, rate: 0.2}}\n")

// finished is a run with later stages: it is in the folder from, and its stages are in neighbouring folders.
type finished struct{ dir, from string }

func (f finished) stage(t *testing.T, name string, o run.LaterOptions) (*results.Result, string, error) {
	out := filepath.Join(f.dir, name)
	o.From = f.from
	later, err := run.NewLater(o)
	if err != nil {
		return nil, out, err
	}
	result, err := RunLater(testkit.Within(t), later, f.from, Options{Out: out})
	return result, out, err
}

// mustStage is a stage that must succeed.
func (f finished) mustStage(t *testing.T, name string, o run.LaterOptions) (*results.Result, string) {
	t.Helper()
	result, out, err := f.stage(t, name, o)
	testkit.Must(t, err)
	return result, out
}

// refuses requires that stages are refused with this error.
func refuses(t *testing.T, o run.LaterOptions, want string) {
	t.Helper()
	if _, err := run.NewLater(o); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%+v: %v; want %q", o, err, want)
	}
}

// Stages follow a finished run on its own cluster and ledger, within its dataset's remaining budget, and their
// certificates cover everything that their rows are made from.
func TestStagesOfAFinishedRun(t *testing.T) {
	t.Parallel()
	spec, dir, from := begin(t, runWithRoom)
	_, err := Run(testkit.Within(t), spec, Options{Out: from})
	testkit.Must(t, err)
	before, f := testkit.Read(t, filepath.Join(from, "ledger.jsonl")), finished{dir, from}

	_, boosted := f.mustStage(t, "boosted", run.LaterOptions{Post: []string{"pgb"}, Epsilon: 0.1})
	c, v := verified(t, boosted)
	if total := v.Runs["small.pgb"]; total.Releases != 5 || !total.Closed ||
		total.Events[0].Kind != privacy.Exponential || total.Price.Epsilon > 0.1 {
		t.Errorf("the stage's run is %+v", total)
	}
	if c.Run != "small.pgb" || !slices.Equal(c.Earlier, []string{"small"}) || c.Epsilon != 1.5 ||
		!(c.EpsilonSpent > v.Runs["small"].Price.Epsilon) {
		t.Errorf("certificate %+v", c)
	}

	weighted, out := f.mustStage(t, "weighted", run.LaterOptions{Weights: "logreg-debiased", Epsilon: 0.1})
	if c, v = verified(t, out); len(v.Runs) != 3 || c.Run != "small.logreg-debiased" {
		t.Errorf("certificate %+v", c)
	}
	schema, err := partition.LoadSchema(spec.Schema)
	testkit.Must(t, err)
	table, err := tabular.Read(schema, weighted.Outputs["synthetic"], tabular.Options{Weights: true})
	if err != nil || len(table.Weights()) != 50 {
		t.Errorf("%d weights, %v", len(table.Weights()), err)
	}

	// Free stages need only the run, and do not change its ledger.
	_, free := f.mustStage(t, "free", run.LaterOptions{Post: []string{"drs"}})
	if c, _ = verified(t, free); c.Run != "small" || c.Earlier != nil {
		t.Errorf("certificate %+v", c)
	}
	if after := testkit.Read(t, filepath.Join(free, "ledger.jsonl")); !bytes.Equal(before, after) {
		t.Error("the ledger changed")
	}

	// The remaining budget is too small: nothing is asked, and no run is opened.
	_, _, err = f.stage(t, "dear", run.LaterOptions{Weights: "logreg-noised", Epsilon: 1.4})
	if !errors.Is(err, student.ErrOverBudget) && !errors.Is(err, student.ErrRefused) {
		t.Errorf("more than is left: %v", err)
	}
	_, again := f.mustStage(t, "again", run.LaterOptions{Post: []string{"pgb"}, Epsilon: 0.05, Name: "small.again"})
	if _, v = verified(t, again); len(v.Runs) != 4 {
		t.Errorf("%d runs in the ledger, want 4: the refused one has none", len(v.Runs))
	}

	for want, o := range map[string]run.LaterOptions{
		"is not free":     {Post: []string{"pgb"}},
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
		o.From = from
		refuses(t, o, want)
	}
	compared := filepath.Join(dir, "compared")
	testkit.Must(t, os.MkdirAll(compared, 0o755))
	files(t, compared, map[string]string{"NOT-PRIVATE.csv": ""})
	for from, want := range map[string]string{
		boosted: "has stages of run", free: "has free stages (small.drs) of run",
		compared: "has a comparison, NOT PRIVATE", dir: "give the output folder of a finished run",
	} {
		refuses(t, run.LaterOptions{From: from, Post: []string{"drs"}}, want)
	}
}

// Paid results are kept if a stage fails: a run, or stages of their own, write the rows without it, and report what
// was spent. Other stages can use these rows.
func TestAFailedStageLeavesWhatWasMade(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes whole runs, as others do")
	}
	const failing = "drs: {percentile: 0, tries: 1}\n"
	fails := func(post, says string) (*runfile.Spec, finished) {
		t.Helper()
		spec, dir, from := begin(t, runWithRoom+"post: "+post+"\n"+failing)
		if _, err := Run(testkit.Within(t), spec, Options{Out: from}); err == nil ||
			!strings.Contains(err.Error(), "too few candidates") || !strings.Contains(err.Error(), says) {
			t.Fatalf("a stage that cannot end: %v", err)
		}
		if c, v := verified(t, from); c.Rows != 50 || !v.Runs["small"].Closed {
			t.Errorf("certificate %+v", c)
		}
		return spec, finished{dir, from}
	}
	_, trained := fails("[drs]", "without the stages")
	// Editing the run's files afterwards changes no statement about the run.
	files(t, trained.dir, map[string]string{"other.yaml": strings.NewReplacer("pipeline: pategan", "pipeline: dpgan",
		"teachers: 14", "teachers: 500").Replace(runWithRoom)})
	_, out := trained.mustStage(t, "weighted", run.LaterOptions{Run: filepath.Join(trained.dir, "other.yaml"),
		Weights: "discriminator"})
	if c, _ := verified(t, out); c.Pipeline != "pategan" || c.Teachers != 14 {
		t.Errorf("certificate %+v", c)
	}
	// A folder belongs to one run.
	testkit.Must(t, os.Remove(filepath.Join(out, "certificate.json")))
	if _, _, err := trained.stage(t, "weighted", run.LaterOptions{Post: []string{"pgb"}, Epsilon: 0.1}); err == nil ||
		!strings.Contains(err.Error(), "has the state of run") {
		t.Errorf("another run's folder: %v", err)
	}

	spec, boosted := fails("[pgb, drs]", "are from the stages before it, and epsilon")
	_, out, err := boosted.stage(t, "again", run.LaterOptions{Post: []string{"pgb", "drs"}, Epsilon: 0.2})
	if err == nil ||
		!strings.Contains(err.Error(), "of the stage's 0.2 is spent; the rows in "+out+" are from the stages before "+
			"it") {
		t.Fatalf("stages whose rejection cannot end: %v", err)
	}
	if c, v := verified(t, out); c.Rows != 50 || len(v.Runs) != 2 {
		t.Errorf("%d runs, certificate %+v", len(v.Runs), c)
	}
	for _, dir := range []string{boosted.from, out} {
		if page := string(testkit.Read(t, filepath.Join(dir, "report.md"))); !strings.Contains(page,
			"Boosting weighted 200 records") || !strings.Contains(page, "the rows are those before it") {
			t.Error(page)
		}
	}
	// A run.yaml with other data does not belong to the run.
	files(t, boosted.dir, map[string]string{"other-schema.yaml": string(testkit.Read(t, spec.Schema)) + "\n",
		"other.yaml": strings.Replace(spec.Text, "schema.yaml", "other-schema.yaml", 1)})
	refuses(t, run.LaterOptions{From: boosted.from, Run: filepath.Join(boosted.dir, "other.yaml"),
		Post: []string{"drs"}}, "which is not that of the run in")
}
