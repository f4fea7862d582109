package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/bench/figures"
	"github.com/conclave-dp/conclave/internal/local"
	"github.com/conclave-dp/conclave/internal/run/results"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// A short run on the rows that are part of the project.
func short() group {
	return group{
		name: "short", data: "flchain", epsilon: 3, delta: 1e-5, pipeline: "embed", rows: 50, sites: 2,
		fields: "embed: {fit: {steps: 2}}",
		worth: &measure{names: []string{"rows", "weighted"},
			of: func(_ context.Context, d *dataset, rows *table) ([]float64, error) {
				weighted := 0.0
				if rows.Weights() != nil {
					weighted = 1
				}
				return []float64{float64(rows.Len()), weighted}, nil
			}},
		cases: []runCase{
			{name: "debiased", fields: "weights: logreg-debiased", bare: "bare"},
			{name: "exact", fields: "weights: logreg", notPrivate: true},
			{name: "pgb", fields: "post: [pgb]", refused: "no discriminator"},
			{name: "wrong", fields: "weights: magic"},
			{name: "not refused", refused: "whatever",
				made: func(_ context.Context, a *attempt) (*table, error) { return a.data.train, nil }},
		},
	}
}

// What was measured is told, with what failed, and is not measured again. Budgets are looked at.
func TestRunsAreMeasuredOnce(t *testing.T) {
	e := &experiment{name: "short", seeds: 1, groups: func() ([]group, error) {
		g := short()
		g.runs = func(ctx context.Context, a *attempt, _ *figures.Line) (*table, *results.Result, error) {
			rows, result, err := a.run(ctx, nil, local.Options{})
			if a.runCase.name == "debiased" {
				if err := verify(filepath.Join(a.dir, "out"), false, 2.5); err == nil ||
					!strings.Contains(err.Error(), "was spent of") {
					t.Errorf("more was spent than there is: %v", err)
				}
			}
			return rows, result, err
		}
		return []group{g, {name: "absent", data: "absent", cases: []runCase{{name: "x"}}}}, nil
	}}
	path := filepath.Join(t.TempDir(), "log.jsonl")
	measure := func() *log {
		t.Helper()
		c := e.command()
		c.SilenceErrors, c.SilenceUsage = true, true
		c.SetArgs([]string{"--seeds", "1", "--log", path})
		err := c.ExecuteContext(t.Context())
		if err == nil || err.Error() != "2 runs failed" {
			t.Fatal(err)
		}
		l, err := openLog(path)
		testkit.Must(t, err)
		l.close()
		return l
	}
	l := measure()
	want := map[string][]float64{"real rows": {6299, 0}, "debiased": {50, 1}, "bare": {50, 0}, "exact": {50, 1},
		"pgb": nil, "wrong": nil, "not refused": nil}
	for _, o := range l.outcomes {
		wanted, ok := want[o.Case]
		if !ok || o.Privacy != "NOT PRIVATE: computed from real rows without noise" {
			t.Errorf("%+v", o)
		}
		if o.Case != figures.RealRows && wanted != nil && (o.Figures["rows"] != wanted[0] ||
			o.Figures["weighted"] != wanted[1]) {
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
	if table := groupTables(l.outcomes, []group{short()}); !strings.Contains(table,
		"| debiased | 1 | 50.000 | 1.000 |") || !strings.Contains(table, "magic") || strings.Contains(table, "null") {
		t.Error(table)
	}
}

func TestCertificatesAreVerified(t *testing.T) {
	dir := t.TempDir()
	if err := verify(dir, true, 1); err != nil {
		t.Error(err)
	}
	if err := verify(dir, false, 1); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a run without a certificate: %v", err)
	}
	testkit.Must(t, os.WriteFile(filepath.Join(dir, "certificate.json"), []byte("{}"), 0o600))
	if verify(dir, true, 1) == nil || verify(dir, false, 1) == nil {
		t.Error("a certificate of nothing was taken")
	}
}

func TestGroupsAndCasesAreChosen(t *testing.T) {
	groups := []group{
		{name: "a-1", cases: []runCase{{name: "x"}, {name: "y"}}}, {name: "a-10", cases: []runCase{{name: "y"}}},
		{name: "b-1", cases: []runCase{{name: "y"}}},
	}
	for flags, want := range map[[2]string]string{
		{"*", "*"}: "a-1 2 a-10 1 b-1 1 ", {"a-*", "*"}: "a-1 2 a-10 1 ", {"a-1", "*"}: "a-1 2 ", {"*", "x"}: "a-1 1 ",
		{"b-1, a-1,a-*", "x,y"}: "a-1 2 a-10 1 b-1 1 ",
		{"c", "*"}:              "", {"a", "*"}: "", {"b-1,none", "*"}: "", {"b-1", "x"}: "", {"[", "*"}: "",
		{"*", "["}: "",
	} {
		chosen, err := choose(groups, flags[0], flags[1])
		got := ""
		for _, g := range chosen {
			got += fmt.Sprintf("%s %d ", g.name, len(g.cases))
		}
		if got != want || (err != nil) != (want == "") {
			t.Errorf("%v: %q, %v", flags, got, err)
		}
	}
}

func TestFieldsOverOthers(t *testing.T) {
	for _, c := range [][3]string{
		{"", "", `{}`},
		{"{a: 1, s: {x: 1, y: 2}}", "", `{"a":1,"s":{"x":1,"y":2}}`},
		{"{a: 1, s: {x: 1, y: 2}}", "{a: two, s: {y: 3}}", `{"a":"two","s":{"x":1,"y":3}}`},
		{"", "{s: {y: 3}}", `{"s":{"y":3}}`},
	} {
		below, err := over(nil, c[0])
		testkit.Must(t, err)
		fields, err := over(below, c[1])
		testkit.Must(t, err)
		if got, err := json.Marshal(fields); err != nil || string(got) != c[2] {
			t.Errorf("%s under %s: %s, %v", c[0], c[1], got, err)
		}
	}
	if _, err := over(nil, "{"); err == nil {
		t.Error("broken fields were taken")
	}
}
