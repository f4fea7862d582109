package results

import (
	"context"
	"errors"
	"testing"

	"github.com/conclave-dp/conclave/internal/evaluate"
	"github.com/conclave-dp/conclave/internal/report"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/partitiontest"
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
	schema := partitiontest.Schema(t, ageSchema)
	table := partition.NewTable(schema)
	for age := range 100 {
		label := 0.0
		if twoClasses && age > 60 {
			label = 1
		}
		testkit.Must(t, table.Append([]float64{float64(age), label}, ""))
	}
	return table
}

func TestFillPage(t *testing.T) {
	var page report.Page
	if err := fillPage(t.Context(), &page, ages(t, true), Real{}); err != nil || page.NotPrivate() ||
		len(page.Columns) != 2 || page.Correlations == nil {
		t.Errorf("without real rows: %v, %+v", err, page)
	}
	real := Real{Test: ages(t, true), Train: ages(t, true), CoinFlips: ages(t, false), Models: Evaluate{}.ModelNames()}
	if err := fillPage(t.Context(), &page, ages(t, true), real); err != nil || !page.NotPrivate() ||
		page.Evaluation.Rows != (evaluate.Rows{Synthetic: 100, Test: 100, Train: 100}) {
		t.Errorf("with real rows: %v, %+v", err, page)
	}
	results := utilityOf(page.Evaluation)
	if len(results) != 2 || *results[0].SyntheticAUROC != 1 || results[0].RealAUROC == nil ||
		*results[0].RealAUROC != 1 {
		t.Errorf("utility %+v", results)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	page.Evaluation = nil
	if err := fillPage(ctx, &page, ages(t, true), real); !errors.Is(err, context.Canceled) || !page.NotPrivate() ||
		page.Evaluation != nil {
		t.Errorf("cancelled: %v, %+v", err, page)
	}
}
