package classify

import (
	"errors"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/evaluate/measure"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// world makes rows whose label depends on the first column, and on the product of
// the next two when the world is not linear.
func world(seed uint64, rows, cols int, linear bool) (Matrix, []bool) {
	r := rand.New(rand.NewPCG(seed, 7))
	x := Matrix{Rows: rows, Cols: cols, Data: make([]float64, rows*cols)}
	positive := make([]bool, rows)
	for i := range rows {
		row := x.Row(i)
		for j := range row {
			row[j] = r.NormFloat64()
		}
		z := 2 * row[0]
		if !linear {
			z = 4 * row[1] * row[2]
		}
		positive[i] = r.Float64() < sigmoid(z)
	}
	return x, positive
}

func auroc(t *testing.T, model *Classifier, x Matrix, positive []bool) float64 {
	t.Helper()
	scores, err := model.Score(x)
	testkit.Must(t, err)
	a, err := measure.AUROC(positive, scores, nil)
	testkit.Must(t, err)
	return a
}

func TestModelsLearnWhatTheyCan(t *testing.T) {
	cases := []struct {
		name   string
		model  *Classifier
		linear bool
		least  float64
		most   float64
	}{
		{"logistic on a linear world", logistic(1), true, 0.85, 1},
		{"boosting on a linear world", boosting(), true, 0.83, 1},
		{"logistic cannot see a product", logistic(1), false, 0.4, 0.6},
		{"boosting sees a product", boosting(), false, 0.85, 1},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			x, y := world(1, 4000, 5, c.linear)
			test, truth := world(2, 4000, 5, c.linear)
			testkit.Must(t, c.model.Fit(Rows{X: x, Positive: y}))
			if a := auroc(t, c.model, test, truth); a < c.least || a > c.most {
				t.Errorf("AUROC %.3f, want between %v and %v", a, c.least, c.most)
			}
		})
	}
}

func fitAndScore(t *testing.T, model *Classifier, r Rows, x Matrix) []float64 {
	t.Helper()
	testkit.Must(t, model.Fit(r))
	scores, err := model.Score(x)
	testkit.Must(t, err)
	return scores
}

// Without weights each row weighs 1.
func TestModelsAreDeterministicAndForget(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	x, y := world(1, 250, 4, false) // more than a batch of the perceptron
	ones := slices.Repeat([]float64{1}, x.Rows)
	other, labels := world(9, 60, 6, true)
	for k, model := range All() {
		runtime.GOMAXPROCS(3)
		fitAndScore(t, model, Rows{X: other, Positive: labels}, other)
		used := fitAndScore(t, model, Rows{X: x, Positive: y}, x)
		runtime.GOMAXPROCS(1)
		single := fitAndScore(t, All()[k], Rows{X: x, Positive: y}, x)
		if !slices.Equal(used, single) {
			t.Errorf("%s: an earlier fit or the number of processors matters", model.Name())
		}
		weighed := fitAndScore(t, All()[k], Rows{X: x, Positive: y, Weight: ones}, x)
		if !slices.Equal(weighed, single) {
			t.Errorf("%s: weights of 1 change the scores", model.Name())
		}
	}
}

// At the minimum the gradient of the stated objective is zero. Coefficients are
// given in the features' own scale.
func TestLogisticIsAtTheMinimum(t *testing.T) {
	x, y := world(3, 500, 3, true)
	for i := range x.Rows {
		row := x.Row(i)
		row[1] = 1000 + 50*row[1]
		row[2] = 7 // constant
	}
	rows, err := Rows{X: x, Positive: y}.prepare()
	testkit.Must(t, err)
	model, err := fitLogistic(rows, 2)
	testkit.Must(t, err)
	weights, intercept := model.coefficients()
	mean, scale := model.mean, model.scale
	gradient := make([]float64, 4)
	for i := range x.Rows {
		z := intercept
		for j, v := range x.Row(i) {
			z += weights[j] * v
		}
		residual := sigmoid(z)
		if y[i] {
			residual--
		}
		for j, v := range x.Row(i) {
			gradient[j] += residual * (v - mean[j]) / scale[j]
		}
		gradient[3] += residual
	}
	for j := range 3 {
		gradient[j] += 2 * weights[j] * scale[j]
	}
	for j, g := range gradient {
		if math.Abs(g) > 1e-5 {
			t.Errorf("gradient %d is %v at the fitted point", j, g)
		}
	}
	if weights[2] != 0 {
		t.Errorf("the constant column has weight %v", weights[2])
	}
}

func TestLogisticOnSeparableAndDependentColumns(t *testing.T) {
	x := Matrix{Rows: 6, Cols: 3, Data: []float64{
		0, 1, 0,
		0, 1, 0,
		0, 1, 0,
		1, 0, 1,
		1, 0, 1,
		1, 0, 1,
	}}
	y := []bool{false, false, false, true, true, true}
	model := logistic(1e-6)
	testkit.Must(t, model.Fit(Rows{X: x, Positive: y}))
	if a := auroc(t, model, x, y); a != 1 {
		t.Errorf("AUROC %v on separable rows", a)
	}
}

func TestModelsRefuse(t *testing.T) {
	x := Matrix{Rows: 2, Cols: 1, Data: []float64{0, 1}}
	y := []bool{false, true}
	weighted := func(w ...float64) Rows { return Rows{X: x, Positive: y, Weight: w} }
	plain := func(x Matrix, y []bool) Rows { return Rows{X: x, Positive: y} }
	bad := []struct {
		name string
		rows Rows
		says string
		is   error
	}{
		{"one class", plain(x, []bool{true, true}), "all 2 are positive", measure.ErrOneClass},
		{"no rows", plain(Matrix{Cols: 1}, nil), "at least one", nil},
		{"no columns", plain(Matrix{Rows: 2}, y), "at least one", nil},
		{"negative size", plain(Matrix{Rows: -1, Cols: -1, Data: []float64{1}}, y), "at least one", nil},
		{"cells missing", plain(Matrix{Rows: 2, Cols: 2, Data: []float64{1, 2, 3}}, y), "holds 3 cells", nil},
		{"labels missing", plain(x, y[:1]), "2 rows but 1 labels", nil},
		{"not a number", plain(Matrix{Rows: 2, Cols: 1, Data: []float64{0, math.NaN()}}, y), "feature 1 of row 2", nil},
		{"infinite", plain(Matrix{Rows: 2, Cols: 1, Data: []float64{math.Inf(1), 0}}, y), "feature 1 of row 1", nil},
		{"too large", plain(Matrix{Rows: 2, Cols: 1, Data: []float64{-1e101, 0}}, y), "scale it", nil},
		{"weights missing", weighted(1), "2 rows but 1 weights", ErrWeight},
		{"no weights", Rows{X: x, Positive: y, Weight: []float64{}}, "2 rows but 0 weights", ErrWeight},
		{"negative weight", weighted(1, -1), "row 2 has weight -1", ErrWeight},
		{"weight not a number", weighted(math.NaN(), 1), "row 1 has weight NaN", ErrWeight},
		{"infinite weight", weighted(1, math.Inf(1)), "row 2 has weight +Inf", ErrWeight},
		{"tiny weight", weighted(1, 1e-101), "row 2 has weight", ErrWeight},
		{"weights all 0", weighted(0, 0), "all 2 are 0", ErrWeight},
		{"one class without weight", weighted(1, 0), "all 1 are negative", measure.ErrOneClass},
	}
	for _, model := range All() {
		if _, err := model.Score(x); err == nil || !strings.Contains(err.Error(), "Fit first") {
			t.Errorf("%s: score before fit gave %v", model.Name(), err)
		}
		for _, c := range bad {
			err := model.Fit(c.rows)
			if err == nil || !strings.Contains(err.Error(), c.says) || !strings.HasPrefix(err.Error(), model.Name()) {
				t.Errorf("%s, %s: %v; want an error saying %q", model.Name(), c.name, err, c.says)
			}
			for _, is := range []error{measure.ErrOneClass, ErrWeight} {
				if errors.Is(err, is) != (c.is == is) {
					t.Errorf("%s, %s: %v; want it to be %v", model.Name(), c.name, err, c.is)
				}
			}
		}
		if err := model.Fit(plain(x, y)); err != nil {
			t.Errorf("%s on two rows: %v", model.Name(), err)
		}
		if _, err := model.Score(Matrix{Rows: 1, Cols: 2, Data: []float64{1, 2}}); err == nil ||
			!strings.Contains(err.Error(), "fitted to 1 columns") {
			t.Errorf("%s: other width gave %v", model.Name(), err)
		}
		if _, err := model.Score(Matrix{Rows: 1, Cols: 1, Data: []float64{math.NaN()}}); err == nil ||
			!strings.Contains(err.Error(), "not a finite number") {
			t.Errorf("%s: a score of NaN gave %v", model.Name(), err)
		}
	}
}

func BenchmarkTrees(b *testing.B) {
	x, y := world(1, 60000, 30, false)
	for _, model := range All() {
		if !slices.Contains([]string{"random forest", "decision tree", "adaboost", "bagging",
			"first-order gradient boosting", "gradient boosting"}, model.Name()) {
			continue
		}
		b.Run(strings.ReplaceAll(model.Name(), " ", "-")+"/60000x30", func(b *testing.B) {
			for b.Loop() {
				testkit.Must(b, model.Fit(Rows{X: x, Positive: y}))
			}
		})
	}
}
