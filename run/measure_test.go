package run

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/evaluate"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/report"
)

const ageSchema = `name: ages
label: label
columns:
  - {name: age, kind: integer, lower: 0, upper: 120}
  - {name: label, kind: binary}
`

// ages is a table in which the old have label 1, or everybody has label 0.
func ages(t *testing.T, twoClasses bool) *partition.Table {
	t.Helper()
	schema, err := partition.ParseSchema([]byte(ageSchema))
	if err != nil {
		t.Fatal(err)
	}
	table := partition.NewTable(schema)
	for age := range 100 {
		label := 0.0
		if twoClasses && age > 60 {
			label = 1
		}
		if err := table.Append([]float64{float64(age), label}, ""); err != nil {
			t.Fatal(err)
		}
	}
	return table
}

func TestMeasureBasics(t *testing.T) {
	e, err := measureBasics(t.Context(), ages(t, true), ages(t, true), nil)
	if err != nil {
		t.Fatal(err)
	}
	if e.Privacy != evaluate.NotPrivate || e.Rows != (evaluate.Rows{Synthetic: 100, Test: 100}) || len(e.Columns) != 2 || len(e.Notes) != 0 {
		t.Errorf("%+v", e)
	}
	results := utilityOf(e)
	if len(results) != len(e.Utility) || len(results) == 0 || results[0].SyntheticAUROC != 1 || results[0].RealAUROC != nil {
		t.Errorf("utility %+v", results)
	}
	if e, err = measureBasics(t.Context(), ages(t, true), ages(t, true), ages(t, true)); err != nil || e.Rows.Train != 100 {
		t.Fatalf("%v, %+v", err, e)
	}
	if results := utilityOf(e); results[0].RealAUROC == nil || *results[0].RealAUROC != 1 {
		t.Errorf("with training rows: %+v", results)
	}
	if e, err = measureBasics(t.Context(), ages(t, false), ages(t, true), nil); err != nil || len(e.Utility) != 0 || len(e.Notes) != 1 {
		t.Errorf("rows of one class: %v, %+v", err, e)
	}
}

func TestFillPage(t *testing.T) {
	before := measure
	t.Cleanup(func() { measure = before })
	measure = func(context.Context, *partition.Table, *partition.Table, *partition.Table) (*evaluate.Evaluation, error) {
		return nil, errors.New("out of paper")
	}
	var page report.Page
	if err := fillPage(t.Context(), &page, ages(t, true), realTables{}); err != nil || page.NotPrivate() || len(page.Columns) != 2 || page.Correlations == nil {
		t.Errorf("without real rows: %v, %+v", err, page)
	}
	err := fillPage(t.Context(), &page, ages(t, true), realTables{test: ages(t, true)})
	if err == nil || !strings.Contains(err.Error(), "compare with real rows: out of paper") || !page.NotPrivate() || page.Evaluation != nil {
		t.Errorf("with real rows: %v, %+v", err, page)
	}
}

// Of winners there are no shares.
func TestWinnersHaveNoShares(t *testing.T) {
	s := DefaultSpec()
	s.PATEGAN.Release = "winner"
	if shares := sharesOf(&s, nil); shares != nil {
		t.Errorf("%v", shares)
	}
}
