package evaluate

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
)

const lineSchema = `name: line
task: regression
label: y
columns:
  - {name: x, kind: continuous, lower: 0, upper: 10}
  - {name: c, kind: categorical, categories: [a, b]}
  - {name: u, kind: continuous, lower: 0, upper: 1, nullable: true}
  - {name: y, kind: continuous, lower: 0, upper: 100}
`

// line makes rows of y = intercept + slope x + step c, exactly.
func line(t *testing.T, s *partition.Schema, n int, intercept, slope, step float64, seed uint64) *partition.Table {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 9))
	out := partition.NewTable(s)
	for range n {
		x, c := random.Float64()*10, float64(random.IntN(2))
		testkit.Must(t, out.Append([]float64{x, c, math.NaN(), intercept + slope*x + step*c}, ""))
	}
	return out
}

func TestCompareRegressionsByHand(t *testing.T) {
	s := schemaOf(t, lineSchema)
	train, test := line(t, s, 100, 10, 4, 5, 1), line(t, s, 50, 10, 4, 5, 2)
	synthetic := line(t, s, 80, 16, 4, 5, 3)
	got, notes, err := CompareRegressions(train, test, synthetic, nil, nil)
	if err != nil || len(got) != 1 || len(notes) != 0 {
		t.Fatalf("%+v, %q, %v", got, notes, err)
	}
	r := got[0]
	if r.Column != "y" || *r.RMSEReal > 1e-5 || math.Abs(r.RMSESynthetic-6) > 1e-5 || *r.BetaMSE > 1e-12 {
		t.Errorf("another intercept: %+v, rmse %v, beta %v", r, *r.RMSEReal, *r.BetaMSE)
	}
	// In units of the ranges the slopes are 0.4 and 0.6 and the steps 0.05 and 0.15; u has
	// two features without an effect, as it is empty.
	got, _, err = CompareRegressions(train, test, line(t, s, 80, 10, 6, 15, 3), nil, nil)
	if want := (0.2*0.2 + 0.1*0.1) / 4; err != nil || math.Abs(*got[0].BetaMSE-want) > 1e-7 {
		t.Errorf("beta mse is %v, want %v; %v", *got[0].BetaMSE, want, err)
	}
	// Without training rows there is only one side.
	got, _, err = CompareRegressions(nil, test, synthetic, nil, []string{"x", "y"})
	if err != nil || len(got) != 2 || got[1].RMSEReal != nil || got[1].BetaMSE != nil ||
		math.Abs(got[1].RMSESynthetic-6) > 1e-5 {
		t.Errorf("without training rows: %+v, %v", got, err)
	}
	// A row of weight 0 is ignored, and one of weight 2 counts twice.
	mixed := partition.NewTable(s)
	for i := range synthetic.Len() {
		testkit.Must(t, mixed.Append(synthetic.Cells(i), ""))
	}
	testkit.Must(t, mixed.Append([]float64{5, 0, math.NaN(), 99}, ""))
	w := make([]float64, mixed.Len())
	for i := range synthetic.Len() {
		w[i] = 1
	}
	without, _, err := CompareRegressions(nil, test, mixed, w, nil)
	if err != nil || math.Abs(without[0].RMSESynthetic-6) > 1e-5 {
		t.Errorf("with a row of weight 0: %+v, %v", without, err)
	}
	w[len(w)-1] = 2
	rows := append(count(mixed.Len()), mixed.Len()-1)
	twice, _, err := CompareRegressions(nil, test, mixed.Subset(rows), nil, nil)
	testkit.Must(t, err)
	if weighted, _, err := CompareRegressions(nil, test, mixed, w, nil); err != nil ||
		math.Abs(weighted[0].RMSESynthetic-twice[0].RMSESynthetic) > 1e-9 {
		t.Errorf("a weight of 2 gives %+v, the row twice %+v; %v", weighted, twice, err)
	}
}

func TestCompareRegressionsWithoutValuesOrTargets(t *testing.T) {
	s := schemaOf(t, lineSchema)
	real := line(t, s, 20, 10, 4, 5, 1)
	got, notes, err := CompareRegressions(real, real, real, nil, []string{"u"})
	if err != nil || len(got) != 0 || len(notes) != 1 || !strings.Contains(notes[0], "no synthetic row has a value") {
		t.Errorf("an empty column: %+v, %q, %v", got, notes, err)
	}
	for _, name := range []string{"c", "z"} {
		if _, _, err := CompareRegressions(real, real, real, nil, []string{name}); err == nil ||
			!strings.Contains(err.Error(), name) {
			t.Errorf("column %s: %v", name, err)
		}
	}
	classes := schemaOf(t, tinySchema)
	table := tableOf(t, classes, []float64{1, 1, 0, 1})
	if got, notes, err := CompareRegressions(table, table, table, nil, nil); err != nil || len(got) != 0 ||
		len(notes) != 0 {
		t.Errorf("a label of classes: %+v, %q, %v", got, notes, err)
	}
}

func TestAgreement(t *testing.T) {
	ranking := func(v float64) *Ranking { return &Ranking{AUROC: v} }
	models := []ModelUtility{{A: ranking(0.9), C: ranking(0.8)}, {A: ranking(0.8), C: ranking(0.7)},
		{A: ranking(0.7), C: ranking(0.75)}, {A: ranking(0.1)}}
	got, notes := RankingAgreement(models)
	close(t, "agreement", got, 2.0/3)
	if len(notes) != 0 {
		t.Errorf("notes %q", notes)
	}
	if got, notes = RankingAgreement(models[2:]); got != nil || len(notes) != 1 {
		t.Errorf("of one model: %v, %q", got, notes)
	}
}

func TestCompareImportance(t *testing.T) {
	s := schemaOf(t, lineSchema)
	// x decides y in the real rows, c in the synthetic ones; u never varies.
	real, synthetic := line(t, s, 200, 10, 8, 1, 1), line(t, s, 200, 30, 0.1, 40, 2)
	got, notes, err := CompareImportance(real, synthetic, nil)
	if err != nil || len(notes) != 0 {
		t.Fatal(notes, err)
	}
	close(t, "agreement", got, 2.0/3) // x and c changed places, u stays the last
	got, _, err = CompareImportance(real, real, nil)
	close(t, "agreement of equal tables", got, 1)
	if err != nil {
		t.Error(err)
	}
	// A number's importance is its correlation, a category's the correlation ratio.
	x, _ := importance(real, nil, 0, 3, nil)
	r, err := correlation(real, 0, 3, nil)
	if err != nil || math.Abs(x-math.Abs(*r)) > 1e-6 {
		t.Errorf("importance of x is %v, its correlation %v", x, *r)
	}
	constant := tableOf(t, s, []float64{1, 0, 0.5, 7}, []float64{2, 1, 0.5, 7})
	if got, notes, err := CompareImportance(real, constant, nil); err != nil || got != nil || len(notes) != 1 {
		t.Errorf("a constant label: %v, %q, %v", got, notes, err)
	}
	none := schemaOf(t, pairSchema)
	table := tableOf(t, none, []float64{1, 1, 0, 0})
	if got, notes, err := CompareImportance(table, table, nil); err != nil || got != nil || len(notes) != 1 {
		t.Errorf("no label: %v, %q, %v", got, notes, err)
	}
}

// numberColumns are the names of the data columns that hold numbers.
func numberColumns(schema *partition.Schema) []string {
	var names []string
	for _, j := range dataColumns(schema) {
		if isNumber(&schema.Columns[j]) {
			names = append(names, schema.Columns[j].Name)
		}
	}
	return names
}
