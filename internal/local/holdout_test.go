package local

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/report"
	"github.com/conclave-dp/conclave/internal/runfile"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/partitiontest"
	"github.com/conclave-dp/conclave/partition/tabular"
)

// Units are held out whole, at about the requested share, and the sites read the rest.
func TestUnitsAreHeldOutWhole(t *testing.T) {
	schema := partitiontest.Schema(t, "columns:\n  - {name: person, role: unit}\n  - {name: x, kind: integer, lower: "+
		"0, "+
		"upper: 9}\n")
	path := filepath.Join(t.TempDir(), "visits.csv")
	var text strings.Builder
	text.WriteString("person,x\n")
	for i := range 3000 {
		fmt.Fprintf(&text, "p%d,%d\n", i%1000, i%10)
	}
	testkit.Must(t, os.WriteFile(path, []byte(text.String()), 0o600))
	const share = 0.2
	// The file is named in two ways, and a quarter of it belongs to no site.
	spec := &runfile.Spec{Data: []runfile.Data{{Site: "a", File: path, Share: 0.5},
		{Site: "b", File: filepath.Join(filepath.Dir(path), ".", "..", filepath.Base(filepath.Dir(path)), "visits.csv"),
			Share: 0.25}}}
	parts := partsOf(spec, schema, share)
	h, err := divided(spec, schema, parts, share)
	testkit.Must(t, err)
	persons := map[string]bool{}
	for row := range h.Test.Len() {
		persons[h.Test.Unit(row)] = true
	}
	if h.Test.Len() != 3*len(persons) || math.Abs(float64(len(persons))/1000-share) > 0.05 {
		t.Errorf("%d rows of %d persons are held out", h.Test.Len(), len(persons))
	}
	read := 0
	for i := range spec.Data {
		site, err := tabular.Read(schema, path, tabular.Options{From: parts[i][0], To: parts[i][1]})
		testkit.Must(t, err)
		read += site.Len()
		for row := range site.Len() {
			if persons[site.Unit(row)] {
				t.Fatalf("%s is held out, and a site reads a row of it", site.Unit(row))
			}
		}
	}
	if read != h.Train.Len() {
		t.Errorf("sites read %d rows, the ceiling is trained on %d", read, h.Train.Len())
	}
}

// writeShare writes the rows of table.csv whose positions among the shares are taken.
func writeShare(t *testing.T, spec *runfile.Spec, dir, name string, takes func(at float64) bool) {
	t.Helper()
	whole, err := tabular.Read(mustSchema(t, spec.Schema), filepath.Join(dir, "table.csv"), tabular.Options{})
	testkit.Must(t, err)
	var taken []int
	for row, at := range partition.SharePositions(whole) {
		if takes(at) {
			taken = append(taken, row)
		}
	}
	var text strings.Builder
	testkit.Must(t, tabular.WriteCSV(&text, whole.Subset(taken)))
	testkit.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(text.String()), 0o600))
}

// A file can have no row to hold out. The run warns before it asks anything.
func TestAFileWithoutHeldOutRowsIsWarnedOf(t *testing.T) {
	t.Parallel()
	spec, dir, out := begin(t, runOn("first.csv", embedding, 1))
	writeShare(t, spec, dir, "first.csv", func(at float64) bool { return at < 0.9 })
	var warnings []string
	_, err := Run(testkit.Within(t), spec, Options{Out: out, HoldOut: true,
		Warn: func(sentence string) { warnings = append(warnings, sentence) }})
	testkit.Must(t, err)
	if !strings.Contains(strings.Join(warnings, "\n"), "No row was held out") {
		t.Errorf("warnings %q", warnings)
	}
}

// A site whose rows are all held out is refused, and the error names the hold-out.
func TestASiteWithoutRowsOfTheTrainingIsToldOfTheHoldOut(t *testing.T) {
	t.Parallel()
	spec, dir, out := begin(t, runOn("few.csv", embedding, 1))
	writeShare(t, spec, dir, "few.csv", func(at float64) bool { return at >= 0.9 })
	_, err := Run(testkit.Within(t), spec, Options{Out: out, HoldOut: true})
	if err == nil || !strings.Contains(err.Error(), "a public hash holds out 10% of the privacy units") ||
		!strings.Contains(err.Error(), "evaluate.hold_out: 0") {
		t.Errorf("the error is %v", err)
	}
}

func TestRowsAreHeldOutOfARun(t *testing.T) {
	t.Parallel()
	spec, dir, out := begin(t, runOn("table.csv", embedding, 0.5, 0.5))
	result, err := Run(testkit.Within(t), spec, Options{Out: out, HoldOut: true})
	testkit.Must(t, err)
	if result.HeldOut != 0.1 {
		t.Errorf("held out: %v", result.HeldOut)
	}
	file, err := report.ReadJSON(testkit.Read(t, result.Outputs["report_json"]))
	testkit.Must(t, err)
	e := file.Evaluation
	if e == nil || e.Baselines == nil || e.Baselines.Real == nil || !strings.Contains(strings.Join(e.Notes, " "),
		"10% of the privacy units, which the run held out") {
		t.Fatalf("the evaluation is %+v", e)
	}
	whole, err := tabular.Read(mustSchema(t, spec.Schema), filepath.Join(dir, "table.csv"), tabular.Options{})
	testkit.Must(t, err)
	if e.Rows.Test+e.Rows.Train != whole.Len() || e.Rows.Test == 0 {
		t.Errorf("%+v of %d rows", e.Rows, whole.Len())
	}
	// The initial share stays, whatever is requested later.
	spec.Evaluate.HoldOut = 0.4
	if got, err := heldShare(filepath.Join(out, "state"), spec, whole.Schema(), false); err != nil || got != 0.1 {
		t.Errorf("the run goes on with %v held out (%v)", got, err)
	}
	testkit.Must(t, os.WriteFile(filepath.Join(out, "state", heldOutFile), []byte(`{"share": 2}`), 0o600))
	if _, err := heldShare(filepath.Join(out, "state"), spec, whole.Schema(), false); err == nil {
		t.Error("a share of 2 was read")
	}
}

func mustSchema(t *testing.T, path string) *partition.Schema {
	t.Helper()
	schema, err := partition.LoadSchema(path)
	testkit.Must(t, err)
	return schema
}
