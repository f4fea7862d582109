package evaluate

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
)

// quick are models that take almost no time.
var quick = []string{"logistic regression", "gaussian naive bayes", "decision tree"}

// drawn makes rows of the tiny schema: age, an often empty dose and the colour lean
// towards the label.
func drawn(t *testing.T, seed uint64, n int) *partition.Table {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 21))
	var rows [][]float64
	for range n {
		label := float64(rng.IntN(2))
		dose := math.NaN()
		if rng.IntN(3) > 0 {
			dose = math.Max(0, math.Min(10, 3+3*label+rng.NormFloat64()))
		}
		colour := float64(rng.IntN(3))
		if rng.IntN(2) == 0 {
			colour = 2 * label
		}
		rows = append(rows, []float64{math.Round(math.Max(0, math.Min(100, 40+15*label+10*rng.NormFloat64()))), dose,
			colour, label})
	}
	return tableOf(t, schemaOf(t, tinySchema), rows...)
}

func TestEvaluateTellsGoodFromBad(t *testing.T) {
	ctx := context.Background()
	train, test := drawn(t, 1, 600), drawn(t, 2, 400)
	good, err := Evaluate(ctx, Input{Synthetic: drawn(t, 3, 600), Test: test, Train: train,
		CoinFlips: shuffledLabels(t, train), Models: quick})
	testkit.Must(t, err)
	copied, err := Evaluate(ctx, Input{Synthetic: train, Test: test, Train: train, Models: quick})
	testkit.Must(t, err)
	bad, err := Evaluate(ctx, Input{Synthetic: shuffledLabels(t, train), Test: test, Train: train, Models: quick})
	testkit.Must(t, err)
	if good.Privacy != NotPrivate || good.Rows != (Rows{600, 400, 600}) || len(good.Utility) != 3 ||
		len(good.Columns) != 4 || len(good.Pairs) != 6 || len(good.Marginals) != 3 {
		t.Errorf("evaluation %+v", good)
	}
	for i, u := range good.Utility {
		if u.Model != quick[i] || u.A == nil || u.B == nil || u.C == nil || u.CoinFlips == nil {
			t.Fatalf("model %d: %+v", i, u)
		}
		if math.Abs(u.A.AUROC-u.B.AUROC) > 0.06 || u.CoinFlips.AUROC > 0.7 || bad.Utility[i].B.AUROC > 0.7 ||
			u.B.AUROC < 0.75 {
			t.Errorf("%s: A %v, B %v, coin flips %v, bad %v", u.Model, *u.A, *u.B, *u.CoinFlips, *bad.Utility[i].B)
		}
	}
	if good.Closeness.MembershipAUROC > 0.6 || copied.Closeness.MembershipAUROC < 0.8 ||
		copied.Closeness.CopiesTrain < 3*good.Closeness.CopiesTrain {
		t.Errorf("closeness of good rows %+v, of copies %+v", *good.Closeness, *copied.Closeness)
	}
	if !(good.Propensity.PMSE < bad.Propensity.PMSE*10) || good.Marginals[2].Mean < good.Marginals[0].Mean {
		t.Errorf("propensity %+v and %+v, marginals %+v", *good.Propensity, *bad.Propensity, good.Marginals)
	}
	if _, err := json.Marshal(good); err != nil {
		t.Error(err)
	}
}

// shuffledLabels keeps every column's distribution and removes the dependence on the label.
func shuffledLabels(t *testing.T, from *partition.Table) *partition.Table {
	t.Helper()
	order := rand.New(rand.NewPCG(9, 9)).Perm(from.Len())
	out := partition.NewTable(from.Schema())
	for i := range from.Len() {
		cells := slices.Clone(from.Cells(i))
		cells[3] = from.Cells(order[i])[3]
		testkit.Must(t, out.Append(cells, ""))
	}
	return out
}

func TestEvaluateIsTheSameWhateverGOMAXPROCS(t *testing.T) {
	run := func(procs int) *Evaluation {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
		e, err := Evaluate(context.Background(),
			Input{Synthetic: drawn(t, 3, 300), Test: drawn(t, 2, 200), Train: drawn(t, 1, 300)})
		testkit.Must(t, err)
		return e
	}
	one := run(1)
	if len(one.Utility) != 12 {
		t.Errorf("%d models", len(one.Utility))
	}
	testkit.Same(t, "", one, run(4))
}

// withWeights gives rows weights.
func withWeights(t *testing.T, rows *partition.Table, weights []float64) *partition.Table {
	t.Helper()
	table, err := rows.WithWeights(weights)
	testkit.Must(t, err)
	return table
}

// A row of weight 2 equals two rows, and one of weight 0 is ignored.
func TestEvaluateWeighsRows(t *testing.T) {
	rows, test := drawn(t, 3, 120), drawn(t, 2, 200)
	weights := wholeWeights(rows.Len())
	a, err := Evaluate(context.Background(),
		Input{Synthetic: withWeights(t, rows, weights), Test: test, Models: quick[:2]})
	testkit.Must(t, err)
	b, err := Evaluate(context.Background(), Input{Synthetic: twice(t, rows, weights), Test: test, Models: quick[:2]})
	testkit.Must(t, err)
	if w := a.Weights; w == nil || math.Abs(w.EffectiveSampleSize-72) > 1e-9 || math.Abs(w.Largest-2) > 1e-12 ||
		w.Zero != 40 || b.Weights != nil {
		t.Errorf("weights %+v, and without them %+v", w, b.Weights) // 40 of 0, 40 of 1, 40 of 2: 120^2/200
	}
	for i := range a.Utility {
		if math.Abs(a.Utility[i].B.AUROC-b.Utility[i].B.AUROC) > 1e-9 {
			t.Errorf("%s: %v weighted, %v repeated", a.Utility[i].Model, *a.Utility[i].B, *b.Utility[i].B)
		}
	}
	for i := range a.Columns {
		if math.Abs(*a.Columns[i].Score-*b.Columns[i].Score) > 1e-9 {
			t.Errorf("%s: %v weighted, %v repeated", a.Columns[i].Column, *a.Columns[i].Score, *b.Columns[i].Score)
		}
	}
}

func TestEvaluateSaysWhatCannotBeMeasured(t *testing.T) {
	test := drawn(t, 2, 100)
	one := tableOf(t, test.Schema(), []float64{40, 1, 0, 1}, []float64{40, 1, 0, 1}, []float64{40, 1, 0, 1})
	two := tableOf(t, test.Schema(), []float64{40, 1, 0, 1}, []float64{30, 1, 0, 0})
	rare := make([][]float64, 40)
	unweighted := make([]float64, test.Len())
	for i := range rare {
		rare[i] = []float64{40, 1, 0, 0}
	}
	rare[7] = []float64{40, 1, 0, 1}
	shares := make([]float64, test.Len())
	for i := range unweighted {
		unweighted[i] = 1 - test.Cells(i)[3]
		shares[i] = 0.01
	}
	for name, c := range map[string]struct {
		in   Input
		says string
	}{
		"two rows": {Input{Synthetic: two, Test: test, Models: quick}, "(setting C)"},
		"a rare class": {Input{Synthetic: tableOf(t, test.Schema(), rare...), Test: test, Models: quick},
			"(setting C)"},
		"weightless": {Input{Synthetic: withWeights(t, test, unweighted), Test: test, Models: quick},
			"synthetic rows have only one class"},
		"small weights": {Input{Synthetic: withWeights(t, test, shares), Test: test, Models: quick},
			"100 synthetic rows add up to 1."},
		"one class":       {Input{Synthetic: one, Test: test, Models: quick}, "synthetic rows have only one class"},
		"one class tests": {Input{Synthetic: test, Test: one, Models: quick}, "test rows have only one class"},
		"no train":        {Input{Synthetic: test, Test: test, Models: quick}, "No real training rows"},
	} {
		e, err := Evaluate(context.Background(), c.in)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !strings.Contains(strings.Join(e.Notes, "\n"), c.says) {
			t.Errorf("%s: notes %q, want %q", name, e.Notes, c.says)
		}
	}
}

func TestEvaluateRefuses(t *testing.T) {
	rows := drawn(t, 1, 30)
	other := tableOf(t, schemaOf(t, strings.ReplaceAll(tinySchema, "blue", "violet")), []float64{1, 1, 0, 0},
		[]float64{1, 1, 0, 1})
	for name, c := range map[string]struct {
		in   Input
		says string
	}{
		"nothing":         {Input{}, "no synthetic rows"},
		"no test":         {Input{Synthetic: rows}, "no test rows"},
		"empty synthetic": {Input{Synthetic: partition.NewTable(rows.Schema()), Test: rows}, "no synthetic rows"},
		"empty train": {Input{Synthetic: rows, Test: rows, Train: partition.NewTable(rows.Schema())},
			"no real training rows"},
		"other columns": {Input{Synthetic: other, Test: rows}, "colour"},
		"unknown model": {Input{Synthetic: rows, Test: rows, Models: []string{"oracle"}}, "oracle"},
	} {
		if _, err := Evaluate(context.Background(), c.in); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: error %v, want %q", name, err, c.says)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Evaluate(ctx, Input{Synthetic: rows, Test: rows}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// BenchmarkEvaluate is a full evaluation, with the real training rows in place of synthetic ones.
func BenchmarkEvaluate(b *testing.B) {
	for _, name := range []string{"flchain", "adult"} {
		b.Run(name, func(b *testing.B) {
			train, test := shared(b, name)
			in := Input{Synthetic: train, Test: test, Train: train}
			for b.Loop() {
				if _, err := Evaluate(context.Background(), in); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(b.Elapsed().Seconds()/float64(b.N), "s")
		})
	}
}
