package evaluate

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/conclave-dp/conclave/internal/evaluate/classify"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
)

// A tree memorizes its training rows, and guesses the labels of others, which are coin flips.
func TestSettingCTestsOnRowsThatWereNotTrainedOn(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	var rows [][]float64
	for range 400 {
		rows = append(rows, []float64{float64(rng.IntN(101)), 10 * rng.Float64(), float64(rng.IntN(3)),
			float64(rng.IntN(2))})
	}
	made := tableOf(t, schemaOf(t, tinySchema), rows...)
	e, err := Evaluate(context.Background(), Input{Synthetic: made, Test: made, Models: []string{"decision tree"}})
	testkit.Must(t, err)
	if u := e.Utility[0]; u.B.AUROC != 1 || u.C.AUROC > 0.7 {
		t.Errorf("B on its own rows %v, C %v", *u.B, *u.C)
	}
}

func TestDivideKeepsThreeQuartersAndTheWeights(t *testing.T) {
	const n = 40
	rows := classify.Rows{X: classify.Matrix{Rows: n, Cols: 1}}
	for i := range n {
		rows.X.Data = append(rows.X.Data, float64(i))
		rows.Positive = append(rows.Positive, i%3 == 0)
		rows.Weight = append(rows.Weight, float64(i+100))
	}
	learn, exam := divide(rows)
	if learn.X.Rows != 30 || exam.X.Rows != 10 {
		t.Fatalf("%d rows to learn from and %d to test on", learn.X.Rows, exam.X.Rows)
	}
	var seen []float64
	for _, part := range []classify.Rows{learn, exam} {
		for i, v := range part.X.Data {
			seen = append(seen, v)
			if part.Weight[i] != v+100 || part.Positive[i] != (int(v)%3 == 0) {
				t.Errorf("row %v has weight %v and class %v", v, part.Weight[i], part.Positive[i])
			}
		}
	}
	slices.Sort(seen)
	if !slices.Equal(seen, rows.X.Data) {
		t.Errorf("rows %v", seen)
	}
}

// In the synthetic rows with weight, age predicts the label as in the real ones; the other rows reverse the
// order.
func TestCompareImportanceWeighsRows(t *testing.T) {
	s := schemaOf(t, tinySchema)
	rows := [][]float64{{10, 1, 0, 0}, {20, 9, 0, 0}, {80, 2, 0, 1}, {90, 8, 0, 1}}
	real := tableOf(t, s, rows...)
	var weight []float64
	for range rows {
		weight = append(weight, 1)
	}
	for range 20 {
		rows = append(rows, []float64{10, 0, 0, 1}, []float64{10, 10, 0, 0})
		weight = append(weight, 0, 0)
	}
	made := tableOf(t, s, rows...)
	plain, _, err := CompareImportance(real, made, nil)
	testkit.Must(t, err)
	weighted, _, err := CompareImportance(real, made, weight)
	testkit.Must(t, err)
	if *plain == 1 || *weighted != 1 {
		t.Errorf("agreement %v without weights, %v with them", *plain, *weighted)
	}
}

// Rows without weight must not affect any part. Numbers of rows, and random samples, differ.
func TestEveryPartLeavesOutRowsWithoutWeight(t *testing.T) {
	s := schemaOf(t, lineSchema)
	train, test := line(t, s, 100, 10, 8, 1, 1), line(t, s, 80, 10, 8, 1, 2)
	good, bad := line(t, s, 60, 10, 7, 2, 3), line(t, s, 90, 30, 0.1, 40, 4)
	var rows [][]float64
	var weights []float64
	for i := range good.Len() {
		rows, weights = append(rows, good.Cells(i)), append(weights, 1)
	}
	for i := range bad.Len() {
		rows, weights = append(rows, bad.Cells(i)), append(weights, 0)
	}
	run := func(made *partition.Table) *Evaluation {
		e, err := Evaluate(context.Background(), Input{Synthetic: made, Test: test, Train: train})
		testkit.Must(t, err)
		e.Rows, e.Weights, e.Notes = Rows{}, nil, nil
		return e
	}
	want, got := run(good), run(withWeights(t, tableOf(t, s, rows...), weights))
	if len(want.Regression) != 1 || want.ImportanceAgreement == nil || want.Closeness == nil {
		t.Fatalf("%+v", want)
	}
	testkit.Same(t, "", want, got, cmpopts.EquateApprox(1e-9, 1e-12))
	if cmp.Equal(want, run(tableOf(t, s, rows...)), cmpopts.EquateApprox(1e-9, 1e-12)) {
		t.Error("the rows do not show with a weight either")
	}
}
