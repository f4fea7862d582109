package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/examples/flchain"
	"github.com/conclave-dp/conclave/internal/run"
	"github.com/conclave-dp/conclave/internal/runfile"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// Every case of every experiment has a name of its own and options that a run takes: what would
// end a measurement after hours.
func TestCasesAreRuns(t *testing.T) {
	for _, e := range experiments() {
		groups, err := e.groups()
		testkit.Must(t, err)
		if e.name == "quality" {
			continue // its runs are a user's
		}
		for _, err := range check(t, groups, e.show != nil) {
			// What only a wide data set's own schema refuses.
			if e.name != "everyset" || !strings.Contains(err.Error(), "debiased-norm-gamma: want a refusal") {
				t.Errorf("%s: %v", e.name, err)
			}
		}
	}
}

// check says which cases are no runs: two of one name, options that a run does not take, or no
// refusal where there should be one, or more than their budget allows where it is priced. It
// loads them with the schema that is part of the project, so a data set's own may still refuse
// one.
func check(t *testing.T, groups []group, price bool) (errs []error) {
	dir := t.TempDir()
	testkit.Must(t, os.CopyFS(dir, flchain.Files))
	testkit.Must(t, os.WriteFile(filepath.Join(dir, "images.yaml"), []byte(imageSchema), 0o600))
	seen, prices := map[string]bool{}, map[string]error{}
	for _, g := range groups {
		d := &dataset{schemaPath: "schema.yaml", trainPath: "train.csv.gz", testPath: "test.csv.gz"}
		if g.images {
			d.schemaPath = "images.yaml"
		}
		for _, c := range g.cases {
			name := g.name + ", " + c.name
			if seen[name] {
				errs = append(errs, fmt.Errorf("%s: there are two", name))
			}
			seen[name] = true
			if c.made != nil {
				continue
			}
			a := &attempt{group: g, runCase: c, data: d, seed: 1, dir: dir}
			spec, err := a.load()
			if err == nil {
				a.group.rows = 1 // which no price depends on
				text, _ := a.text()
				if _, known := prices[string(text)]; !known {
					prices[string(text)] = plan(spec, price && !slices.Contains(easier, g.name))
				}
				err = prices[string(text)]
			}
			switch {
			case c.refused == "" && err != nil:
				errs = append(errs, fmt.Errorf("%s: %w", name, err))
			case c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused)):
				errs = append(errs, fmt.Errorf("%s: want a refusal that says %q, got %v", name, c.refused, err))
			}
		}
	}
	return errs
}

// easier are lines that take seconds to price and differ from another, which is priced, in a larger
// epsilon or fewer steps alone.
var easier = []string{"mnist-10", "fashion-10", "even-1", "even-10"}

func plan(spec *runfile.Spec, price bool) error {
	schema, err := spec.LoadSchema()
	if err != nil || !price {
		return err
	}
	_, err = run.NewPlan(spec, schema)
	return err
}

// imageSchema is that of MNIST's shape: no images are part of the project.
const imageSchema = `name: images
label: y
format: idx
image: {height: 28, width: 28, channels: 1}
columns:
  - {name: pixel, kind: integer, lower: 0, upper: 255, repeat: 784}
  - {name: y, kind: categorical, categories: ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"]}
`

// Check finds what would end a measurement after hours.
func TestCasesThatAreNoRuns(t *testing.T) {
	good := group{name: "x", data: example, epsilon: 1, teachers: 10, rows: 10}
	wrong, poor := good, good
	wrong.name, wrong.fields = "y", "dpgan: {nothing: 1}"
	poor.name, poor.epsilon, poor.fields = "z", 0.001, "dpgan: {class_epsilon: 1}"
	lines := asLines("dpgan", rowsWorth, []group{good, good, wrong, poor})
	g := short()
	g.cases = append(g.cases[:4:4], g.cases[0], runCase{name: "unknown", fields: "dpgan: {nothing: 9}"})
	errs := append(check(t, lines, true), check(t, []group{g}, false)...)
	for i, want := range []string{
		"x, run: there are two", "y, run: ", "z, run: ", "magic", "short, debiased: there are two", "short, unknown",
	} {
		if len(errs) != 6 || !strings.Contains(errs[i].Error(), want) {
			t.Fatalf("%v", errs)
		}
	}
}
