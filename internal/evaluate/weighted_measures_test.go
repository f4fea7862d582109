package evaluate

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
)

// twice writes each row as many times as its weight says.
func twice(t *testing.T, rows *partition.Table, weights []float64) *partition.Table {
	t.Helper()
	out := partition.NewTable(rows.Schema())
	for i, w := range weights {
		for range int(w) {
			testkit.Must(t, out.Append(rows.Cells(i), ""))
		}
	}
	return out
}

func wholeWeights(n int) []float64 {
	w := make([]float64, n)
	for i := range w {
		w[i] = float64(i % 3)
	}
	return w
}

func TestTransportOfTables(t *testing.T) {
	real, made := drawn(t, 1, 300), drawn(t, 2, 300)
	self, _, err := CompareTransport(real, real, nil, TransportOptions{})
	if err != nil || self.Columns > 1e-12 || self.Joint > 1e-9 || self.Rows != 300 {
		t.Errorf("to itself: %+v, %v", self, err)
	}
	w := wholeWeights(made.Len())
	a, _, err := CompareTransport(real, made, w, TransportOptions{Rows: 1000})
	testkit.Must(t, err)
	b, _, err := CompareTransport(real, twice(t, made, w), nil, TransportOptions{Rows: 1000})
	if err != nil || math.Abs(a.Columns-b.Columns) > 1e-9 || math.Abs(a.Joint-b.Joint) > 1e-9 {
		t.Errorf("%+v with weights, %+v repeated, %v", a, b, err)
	}
	c, _, err := CompareTransport(real, made, w, TransportOptions{Rows: 50, Seed: 3})
	again, _, _ := CompareTransport(real, made, w, TransportOptions{Rows: 50, Seed: 3})
	if err != nil || c.Rows != 50 || *c != *again || c.Columns != a.Columns {
		t.Errorf("samples: %+v, %+v, %v", c, again, err)
	}
	// By hand: from 0 and 1 of colour and 20 of age, of a range of 100, the other way.
	s := schemaOf(t,
		"columns:\n  - {name: age, kind: integer, lower: 0, upper: 100}\n  - {name: colour, kind: categorical, "+
			"categories: [red, green]}\n")
	x, y := tableOf(t, s, []float64{10, 0}, []float64{50, 1}), tableOf(t, s, []float64{30, 0}, []float64{90, 0})
	d, _, err := CompareTransport(x, y, []float64{3, 1}, TransportOptions{})
	// Ages: 10 to 30 a half, then 50 to 30 a quarter, 50 to 90 a quarter: 25 of 100.
	// Colours: half of the reds too many. Rows: 0.2 a half, and from the green one a
	// quarter each sqrt(1 + 0.04), sqrt(1 + 0.16).
	want := 0.5*0.2 + 0.25*math.Sqrt(1.04) + 0.25*math.Sqrt(1.16)
	if err != nil || math.Abs(d.Columns-(0.25+0.5)/2) > 1e-12 || math.Abs(d.Joint-want) > 1e-9 {
		t.Errorf("%+v, %v; want %v and %v", d, err, 0.375, want)
	}
	if _, _, err := CompareTransport(x, y, []float64{-1, 1}, TransportOptions{}); !errors.Is(err, ErrWeights) {
		t.Errorf("negative weight: %v", err)
	}
	if _, _, err := CompareTransport(x, y, nil, TransportOptions{Rows: -1}); err == nil {
		t.Error("-1 rows were compared")
	}
	v, err := ColumnTotalVariation(x, y, []float64{3, 1}, "colour")
	if err != nil || math.Abs(v-0.5) > 1e-12 {
		t.Errorf("total variation %v, %v; want 0.5", v, err)
	}
	if _, err := ColumnTotalVariation(x, y, nil, "race"); err == nil {
		t.Error("a column that is not there was compared")
	}
}

// The table of the reference is laid out as a schema of numbers in [0,1].
func TestLabelBetaMSEAgainstScikitLearn(t *testing.T) {
	text := testkit.Read(t, "classify/testdata/regressors.json")
	var r struct {
		X, Test          [][]float64
		Y, Weight, Truth []float64
		Label            struct {
			BetaMSE float64 `json:"beta_mse"`
		}
	}
	testkit.Must(t, json.Unmarshal(text, &r))
	s := schemaOf(t,
		"label: y\ncolumns:\n  - {name: a, kind: continuous, lower: 0, upper: 1}\n  - {name: b, kind: continuous, "+
			"lower: 0, upper: 1}\n"+
			"  - {name: c, kind: binary}\n  - {name: y, kind: binary}\n")
	table := func(x [][]float64, y []float64) *partition.Table {
		var rows [][]float64
		for i := range x {
			label := 0.0
			if y[i] > 22 {
				label = 1
			}
			rows = append(rows, append(append([]float64(nil), x[i]...), label))
		}
		return tableOf(t, s, rows...)
	}
	got, err := LabelBetaMSE(table(r.Test, r.Truth), table(r.X, r.Y), r.Weight)
	if err != nil || math.Abs(got-r.Label.BetaMSE) > 1e-5*r.Label.BetaMSE {
		t.Errorf("%v, %v; want %v", got, err, r.Label.BetaMSE)
	}
	same, err := LabelBetaMSE(table(r.X, r.Y), table(r.X, r.Y), nil)
	if err != nil || same > 1e-15 {
		t.Errorf("of the same rows %v, %v", same, err)
	}
	if _, err := LabelBetaMSE(table(r.X, r.Y), table(r.X, r.Y), []float64{1}); !errors.Is(err, ErrWeights) {
		t.Errorf("one weight: %v", err)
	}
	plain := schemaOf(t, "columns:\n  - {name: a, kind: binary}\n  - {name: b, kind: binary}\n")
	if _, err := LabelBetaMSE(tableOf(t, plain, []float64{1, 0}), tableOf(t, plain, []float64{1, 1}),
		nil); !errors.Is(err, ErrNoClasses) {
		t.Errorf("no label: %v", err)
	}
}

func TestRegressorsOfTables(t *testing.T) {
	train, test, made := drawn(t, 1, 200), drawn(t, 2, 150), drawn(t, 3, 200)
	column := numberColumns(train.Schema())[0]
	got, err := CompareRegressors(context.Background(), train, test, made, wholeWeights(200), column)
	if err != nil || len(got) != 4 {
		t.Fatalf("%+v, %v", got, err)
	}
	plain, _, err := CompareRegressions(train, test, made, wholeWeights(200), []string{column})
	testkit.Must(t, err)
	// The other regression has hardly any penalty.
	if got[0].Model != "linear regression" ||
		math.Abs(got[0].RMSESynthetic-plain[0].RMSESynthetic) > 0.02*plain[0].RMSESynthetic ||
		math.Abs(*got[0].RMSEReal-*plain[0].RMSEReal) > 0.02**plain[0].RMSEReal {
		t.Errorf("linear regression %+v, by CompareRegressions %+v", got[0], plain[0])
	}
	alone, err := CompareRegressors(context.Background(), nil, test, made, nil, column)
	if err != nil || alone[1].RMSEReal != nil || alone[1].RMSESynthetic == got[1].RMSESynthetic {
		t.Errorf("without real rows and weights: %+v, %v", alone, err)
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := CompareRegressors(ended, train, test, made, nil, column); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end: %v", err)
	}
	if _, err := CompareRegressors(context.Background(), train, test, made, nil, "nothing"); err == nil {
		t.Error("a column that is not there was predicted")
	}
	if _, err := CompareRegressors(context.Background(), train, test, made, []float64{1}, column); !errors.Is(
		err, ErrWeights) {
		t.Errorf("one weight: %v", err)
	}
}

// Rows of the same distribution have a ratio near 1, with uneven weights, too; others a
// larger one. The seeds are fixed; over 30 others the ratios below had means of 1.01, 1.03
// and 1.66 and standard deviations of 0.06, 0.05 and 0.06.
func TestPropensityTree(t *testing.T) {
	s := schemaOf(t,
		"columns:\n  - {name: a, kind: continuous, lower: 0, upper: 1}\n  - {name: b, kind: continuous, lower: 0, "+
			"upper: 1}\n")
	random := rand.New(rand.NewPCG(6, 6))
	table := func(n int, tied bool) (*partition.Table, []float64) {
		var rows [][]float64
		var w []float64
		for range n {
			a, b := random.Float64(), random.Float64()
			if tied {
				b = math.Mod(a+0.3*b, 1) // the same columns, together another distribution
			}
			rows, w = append(rows, []float64{a, b}), append(w, random.ExpFloat64())
		}
		return tableOf(t, s, rows...), w
	}
	real, _ := table(400, false)
	same, uneven := table(400, false)
	other, _ := table(400, true)
	o := PropensityTreeOptions{Permutations: 20, Seed: 1}
	for _, c := range []struct {
		name      string
		made      *partition.Table
		weight    []float64
		low, high float64
	}{{"same", same, nil, 0.85, 1.15}, {"same with weights", same, uneven, 0.85, 1.15}, {"other", other, nil, 1.3, 5}} {
		p, err := ComparePropensityTree(real, c.made, c.weight, o)
		testkit.Must(t, err)
		t.Logf("%s: %+v", c.name, *p)
		if !(p.Ratio >= c.low && p.Ratio <= c.high) || p.RatioOfEqual != 1 {
			t.Errorf("%s: %+v", c.name, *p)
		}
	}
	// The logistic regression cannot see the difference, as the means are equal.
	if p, _, err := ComparePropensity(real, other, nil); err != nil || p.Ratio > 6 {
		t.Errorf("logistic: %+v, %v", p, err)
	}
	if _, err := ComparePropensityTree(real, same, []float64{1}, o); !errors.Is(err, ErrWeights) {
		t.Errorf("one weight: %v", err)
	}
	if _, err := ComparePropensityTree(real, same, nil, PropensityTreeOptions{Leaf: -1}); err == nil {
		t.Error("leaves of -1 rows were grown")
	}
}
