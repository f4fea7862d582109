package stages

import (
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/examples/flchain"
)

// A short run on the rows that are part of the project.
func short() Group {
	return Group{
		Name: "short", Data: "flchain", Epsilon: 3, Delta: 1e-5, Pipeline: "embed", Rows: 50, Sites: 2, Run: "embed: {fit: {steps: 2}}",
		Measure: &Measure{Names: []string{"rows", "weighted"}, Of: func(_ context.Context, d *Dataset, rows *Table) ([]float64, error) {
			weighted := 0.0
			if rows.Weights() != nil {
				weighted = 1
			}
			return []float64{float64(rows.Len()), weighted}, nil
		}},
		Cases: []Case{
			{Name: "debiased", Run: "weights: logreg-debiased", Bare: "bare"},
			{Name: "exact", Run: "weights: logreg", NotPrivate: true},
			{Name: "pgb", Run: "post: [pgb]", Refused: "no discriminator"},
			{Name: "wrong", Run: "weights: magic"},
			{Name: "not refused", Refused: "whatever"},
		},
	}
}

func data(t *testing.T) string {
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "flchain"), flchain.Files); err != nil {
		t.Fatal(err)
	}
	return dir
}

// What was measured is told, with what failed, and is not measured again.
func TestRunsAreMeasuredOnce(t *testing.T) {
	p := &Program{Name: "stages", Groups: []Group{short(), {Name: "absent", Data: "absent", Cases: []Case{{Name: "x"}}}}, Strict: true}
	path := filepath.Join(t.TempDir(), "log.jsonl")
	measure := func() *log {
		t.Helper()
		err := p.main(t.Context(), flag.NewFlagSet("", flag.ContinueOnError), []string{"--data", data(t), "--seeds", "1", "--log", path})
		if err == nil || err.Error() != "2 runs failed" {
			t.Fatal(err)
		}
		l, err := openLog(path)
		if err != nil {
			t.Fatal(err)
		}
		l.close()
		return l
	}
	l := measure()
	want := map[string][]float64{"real rows": {6299, 0}, "debiased": {50, 1}, "bare": {50, 0}, "exact": {50, 1}, "pgb": nil, "wrong": nil, "not refused": nil}
	for _, o := range l.outcomes {
		figures, ok := want[o.Case]
		if !ok || o.Privacy != "NOT PRIVATE: computed from real rows without noise" {
			t.Errorf("%+v", o)
		}
		if o.Case != realRows && figures != nil && (o.Figures["rows"] != figures[0] || o.Figures["weighted"] != figures[1]) {
			t.Errorf("%s: %v", o.Case, o.Figures)
		}
		if failed := o.Case == "wrong" || o.Case == "not refused"; failed != (o.Failed != "") {
			t.Errorf("%s: %s", o.Case, o.Failed)
		}
		if spent := o.Case == "debiased" || o.Case == "bare"; spent && !(o.Spent > 2.5 && o.Spent <= 3) {
			t.Errorf("%s spent %v of 3", o.Case, o.Spent)
		}
	}
	if len(l.outcomes) != len(want) {
		t.Fatalf("%d outcomes, want %d", len(l.outcomes), len(want))
	}
	if again := measure(); len(again.outcomes) != len(want) {
		t.Errorf("%d outcomes after another start, want %d", len(again.outcomes), len(want))
	}
	if table := l.table(short()); !strings.Contains(table, "| debiased | 1 | 50.000 | 1.000 |") || !strings.Contains(table, "magic") || strings.Contains(table, "null") {
		t.Error(table)
	}
}

// The budget and the certificate are looked at.
func TestARunIsVerified(t *testing.T) {
	dir := t.TempDir()
	if err := verify(dir, true, 1); err != nil {
		t.Error(err)
	}
	if err := verify(dir, false, 1); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a run without a certificate: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "certificate.json"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if verify(dir, true, 1) == nil || verify(dir, false, 1) == nil {
		t.Error("a certificate of nothing was taken")
	}
	d, err := open(data(t), "flchain")
	if err != nil {
		t.Fatal(err)
	}
	g := short()
	g.Sites = 1
	out := filepath.Join(t.TempDir(), "run")
	if _, _, err := released(t.Context(), g, g.Cases[0], d, 1, false, out); err != nil {
		t.Fatal(err)
	}
	if err := verify(filepath.Join(out, "out"), false, 2.5); err == nil || !strings.Contains(err.Error(), "was spent of") {
		t.Errorf("more was spent than there is: %v", err)
	}
}

func TestGroupsAndCasesAreChosen(t *testing.T) {
	p := &Program{Groups: []Group{{Name: "a-1", Cases: []Case{{Name: "x"}, {Name: "y"}}}, {Name: "b-1", Cases: []Case{{Name: "y"}}}}}
	for flags, want := range map[[2]string]string{
		{"*", "*"}: "a-1 2 b-1 1 ", {"a-*", "*"}: "a-1 2 ", {"*", "x"}: "a-1 1 ", {"b-1, a-1", "x,y"}: "a-1 2 b-1 1 ", {"c", "*"}: "", {"b-1", "x"}: "", {"[", "*"}: "",
	} {
		p.only, p.cases = flags[0], flags[1]
		chosen, err := p.choose()
		got := ""
		for _, g := range chosen {
			got += g.Name + " " + string(rune('0'+len(g.Cases))) + " "
		}
		if got != want || (err != nil) != (want == "") {
			t.Errorf("%v: %q, %v", flags, got, err)
		}
	}
}

// Check finds what would end a measurement after hours.
func TestCasesThatAreNoRuns(t *testing.T) {
	g := short()
	g.Cases = append(g.Cases[:4:4], g.Cases[0], Case{Name: "unknown", Run: "dpgan: {nothing: 9}"})
	errs := (&Program{Name: "stages", Groups: []Group{g}}).Check()
	var all []string
	for _, err := range errs {
		all = append(all, err.Error())
	}
	if len(all) != 3 || !strings.Contains(all[0], "magic") || !strings.Contains(all[1], "there are two") || !strings.Contains(all[2], "short, unknown") {
		t.Errorf("%q", all)
	}
}
