package evaluate

import (
	"errors"
	"flag"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/evaluate/classify"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/partitiontest"
	"github.com/conclave-dp/conclave/partition/tabular"
)

const tinySchema = `name: tiny
task: binary
label: label
positive: 1
columns:
  - {name: age, kind: integer, lower: 0, upper: 100}
  - {name: dose, kind: continuous, lower: 0, upper: 10, nullable: true}
  - {name: colour, kind: categorical, categories: [red, green, blue]}
  - {name: label, kind: binary, lower: 0, upper: 1}
`

func schemaOf(t *testing.T, text string) *partition.Schema {
	t.Helper()
	s := partitiontest.Schema(t, text)
	return s
}

func tableOf(t *testing.T, s *partition.Schema, rows ...[]float64) *partition.Table {
	t.Helper()
	table := partition.NewTable(s)
	for _, cells := range rows {
		testkit.Must(t, table.Append(cells, ""))
	}
	return table
}

// shared reads one of the shared data sets.
func shared(t testing.TB, name string) (train, test *partition.Table) {
	t.Helper()
	dir := filepath.Join("..", "..", "..", "shared", "data", name)
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("the data set is not here: %v", err)
	}
	schema, err := partition.LoadSchema(filepath.Join(dir, "schema.yaml"))
	testkit.Must(t, err)
	read := func(file string) *partition.Table {
		table, err := tabular.ReadCSV(schema, filepath.Join(dir, file), tabular.Options{})
		testkit.Must(t, err)
		return table
	}
	return read("train.csv.gz"), read("test.csv.gz")
}

// The ceilings that scikit-learn reaches on the same split.
var long = flag.Bool("long", false, "train on a large data set, too")

func TestTrainTestReachesTheKnownCeilings(t *testing.T) {
	if testing.Short() {
		t.Skip("one thread of arithmetic, and slow with a race detector")
	}
	for _, c := range []struct {
		data               string
		logistic, boosting float64
		slow               bool
	}{
		{"flchain", 0.851, 0.857, false},
		{"adult", 0.904, 0.928, true},
	} {
		t.Run(c.data, func(t *testing.T) {
			if c.slow && !*long {
				t.Skip("takes many seconds: go test ./evaluate -run TestTrainTestReaches -long")
			}
			train, test := shared(t, c.data)
			rows, err := TrainTest(t.Context(), train, test)
			testkit.Must(t, err)
			for k, want := range []float64{c.logistic, c.boosting} {
				t.Logf("%s: AUROC %.4f, average precision %.4f", rows[k].Classifier, rows[k].AUROC,
					rows[k].AveragePrecision)
				if math.Abs(rows[k].AUROC-want) > 0.012 {
					t.Errorf("%s: AUROC %.4f, want %.3f", rows[k].Classifier, rows[k].AUROC, want)
				}
			}
		})
	}
}

func TestTrainTestUsesTheModelsGiven(t *testing.T) {
	s := schemaOf(t, tinySchema)
	var rows [][]float64
	for i := range 40 {
		label := float64(i % 2)
		rows = append(rows, []float64{20 + 50*label, math.NaN(), float64(i % 3), label})
	}
	table := tableOf(t, s, rows...)
	got, err := TrainTest(t.Context(), table, table, classify.Models()[0])
	testkit.Must(t, err)
	want := Utility{"logistic regression", Ranking{1, 1, 1, 1}}
	if len(got) != 1 || got[0] != want {
		t.Errorf("got %+v, want only %+v", got, want)
	}
}

func TestTrainTestRefuses(t *testing.T) {
	s := schemaOf(t, tinySchema)
	both := tableOf(t, s, []float64{1, 1, 0, 0}, []float64{2, 2, 1, 1})
	ones := tableOf(t, s, []float64{1, 1, 0, 1}, []float64{2, 2, 1, 1})
	number := schemaOf(t, strings.NewReplacer("task: binary", "task: regression", "positive: 1\n", "",
		"label: label", "label: dose", ", nullable: true", "").Replace(tinySchema))
	renamed := schemaOf(t, strings.ReplaceAll(tinySchema, "blue", "violet"))
	fewer := schemaOf(t, strings.ReplaceAll(tinySchema, "  - {name: age, kind: integer, lower: 0, upper: 100}\n", ""))
	cases := []struct {
		name        string
		train, test *partition.Table
		is          error
		says        string
	}{
		{"synthetic rows of one class", ones, both, ErrOneClass, "training rows"},
		{"test rows of one class", both, ones, ErrOneClass, "test rows"},
		{"no rows", partition.NewTable(s), both, ErrOneClass, "training rows"},
		{"no classes", tableOf(t, number, []float64{1, 1, 0, 0}), both, ErrNoClasses, "positive class"},
		{"other categories", both, tableOf(t, renamed, []float64{1, 1, 0, 0}), nil, "colour"},
		{"other columns", both, tableOf(t, fewer, []float64{1, 0, 0}), nil, "4 and 3 columns"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := TrainTest(t.Context(), c.train, c.test)
			if err == nil || !strings.Contains(err.Error(), c.says) || (c.is != nil && !errors.Is(err, c.is)) {
				t.Errorf("%v; want an error saying %q", err, c.says)
			}
		})
	}
}

func TestCompareColumnsByHand(t *testing.T) {
	s := schemaOf(t, tinySchema)
	empty := math.NaN()
	real := tableOf(t, s,
		[]float64{10, 1, 0, 0}, []float64{20, 2, 0, 0}, []float64{30, empty, 1, 1}, []float64{40, 4, 2, 1})
	synthetic := tableOf(t, s,
		[]float64{10, empty, 0, 1}, []float64{10, empty, 1, 1})
	got, _, err := CompareColumns(real, synthetic, nil)
	testkit.Must(t, err)
	quarter, half := 0.25, 0.5
	want := []Shape{
		{"age", KSComplement, &quarter, 1},                            // at 10: 1/4 against 1
		{"dose", KSComplement, nil, 0.25},                             // 1/4 empty against all
		{"colour", TVComplement, &[]float64{1 - (0.25+0.25)/2}[0], 1}, // red 1/2:1/2, green 1/4:1/2, blue 1/4:0
		{"label", TVComplement, &half, 1},                             // 0: 1/2 against 0
	}
	if len(got) != len(want) {
		t.Fatalf("%d shapes, want %d", len(got), len(want))
	}
	for k, w := range want {
		g := got[k]
		same := (g.Score == nil) == (w.Score == nil) && (g.Score == nil || math.Abs(*g.Score-*w.Score) < 1e-12)
		if g.Column != w.Column || g.Measure != w.Measure || !same ||
			math.Abs(g.MissingSimilarity-w.MissingSimilarity) > 1e-12 {
			t.Errorf("shape %d is %+v, want %+v", k, g, w)
		}
	}
	same, _, err := CompareColumns(real, real, nil)
	testkit.Must(t, err)
	for _, g := range same {
		if *g.Score != 1 || g.MissingSimilarity != 1 {
			t.Errorf("a table against itself: %+v", g)
		}
	}
	if _, _, err := CompareColumns(real, partition.NewTable(s), nil); err == nil ||
		!strings.Contains(err.Error(), "0 synthetic rows") {
		t.Errorf("an empty table gave %v", err)
	}
}
