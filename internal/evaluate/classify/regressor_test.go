package classify

import (
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/conclave-dp/conclave/internal/testkit"
)

// regressors is what reference/regressors.py writes.
type regressors struct {
	X, Test          [][]float64
	Y, Weight, Truth []float64
	Linear, Boosting []float64
	RMSE             map[string]struct{ Mean, Lowest, Highest float64 }
	Label            struct {
		Accuracy float64
		Tree     []float64
	}
}

func readRegressors(t *testing.T) (r regressors, learn, exam Targets) {
	t.Helper()
	text := testkit.Read(t, "testdata/regressors.json")
	testkit.Must(t, json.Unmarshal(text, &r))
	flat := func(x [][]float64) Matrix {
		return Matrix{Rows: len(x), Cols: len(x[0]), Data: slices.Concat(x...)}
	}
	return r, Targets{X: flat(r.X), Y: r.Y, Weight: r.Weight}, Targets{X: flat(r.Test), Y: r.Truth}
}

func TestRegressorsAgainstScikitLearn(t *testing.T) {
	r, learn, exam := readRegressors(t)
	models := Regressors()
	models[0] = regressor(models[0].Name(), leastSquares(1e-8)) // there it has no penalty
	for _, c := range []struct {
		model *Regressor
		want  []float64
	}{{models[0], r.Linear}, {regressor("gradient boosting", boostingRegression(30)), r.Boosting}} {
		testkit.Must(t, c.model.Fit(learn))
		got, err := c.model.Predict(exam.X)
		testkit.Must(t, err)
		for i := range got {
			if math.Abs(got[i]-c.want[i]) > 1e-6 {
				t.Errorf("%s: row %d is %v, want %v", c.model.Name(), i, got[i], c.want[i])
				break
			}
		}
	}
	for _, model := range models {
		rmse, err := RegressionRMSE(model, learn, exam)
		testkit.Must(t, err)
		want, ok := r.RMSE[model.Name()]
		if !ok {
			t.Fatalf("no figure of %s", model.Name())
		}
		// Of random models, within the spread of ten seeds there and as much again.
		spread := want.Highest - want.Lowest + 1e-6
		t.Logf("%s: %.4f, there %.4f (%.4f to %.4f)", model.Name(), rmse, want.Mean, want.Lowest, want.Highest)
		if math.Abs(rmse-want.Mean) > 1.5*spread {
			t.Errorf("%s: RMSE %v, want %v to %v", model.Name(), rmse, want.Lowest, want.Highest)
		}
	}
}

// Linear regression has a penalty of 1 in units of the features and of the target's deviation.
func TestPenaltyOfLinearRegression(t *testing.T) {
	x := Matrix{Rows: 4, Cols: 1, Data: []float64{0, 0.1, 0.3, 1}}
	y := []float64{3, 5, 2, 9}
	meanX, meanY := 0.35, 4.75
	xx, xy := 0.0, 0.0
	for i, v := range x.Data {
		xx += (v - meanX) * (v - meanX)
		xy += (v - meanX) * (y[i] - meanY)
	}
	model := Regressors()[0]
	testkit.Must(t, model.Fit(Targets{X: x, Y: y}))
	got := testkit.Value(model.Predict(x))
	for i, v := range x.Data {
		if want := meanY + xy/(xx+1)*(v-meanX); math.Abs(got[i]-want) > 1e-9 {
			t.Errorf("row %d is %v, want %v", i, got[i], want)
		}
	}
}

// A column that is nearly constant in the training rows does not ruin the error for rows in which it varies.
func TestRegressorsWithANearlyConstantColumn(t *testing.T) {
	random := rand.New(rand.NewPCG(6, 6))
	rows := func(spread float64) (r Targets) {
		r.X = Matrix{Rows: 300, Cols: 2}
		for range r.X.Rows {
			a := random.Float64()
			r.X.Data = append(r.X.Data, a, 0.5+spread*random.NormFloat64())
			r.Y = append(r.Y, 10*a+random.NormFloat64())
		}
		return r
	}
	learn, exam := rows(1e-4), rows(0.2)
	for _, model := range Regressors() {
		rmse, err := RegressionRMSE(model, learn, exam)
		testkit.Must(t, err)
		if rmse > 2 { // the noise has 1, the target 3
			t.Errorf("%s: an error of %v", model.Name(), rmse)
		}
	}
}

// The tree with a least number of rows per leaf, and its predicted class.
func TestLeafAndThresholdAgainstScikitLearn(t *testing.T) {
	r, learn, exam := readRegressors(t)
	rows := Rows{X: learn.X}
	for _, v := range r.Y {
		rows.Positive = append(rows.Positive, v > 22)
	}
	tree := DecisionTree(5)
	got := fitAndScore(t, tree, rows, exam.X)
	right, differ := 0, 0
	for i, v := range got {
		if math.Abs(v-r.Label.Tree[i]) > 1e-9 {
			differ++ // where splits gain the same, either may be taken
		}
		if (v > tree.Threshold()) == (r.Truth[i] > 22) {
			right++
		}
	}
	if differ > 2 {
		t.Errorf("%d of %d rows have another share than in scikit-learn", differ, len(got))
	}
	if accuracy := float64(right) / float64(len(got)); math.Abs(accuracy-r.Label.Accuracy) > 2.0/float64(len(got)) {
		t.Errorf("accuracy %v, want %v", accuracy, r.Label.Accuracy)
	}
}

// Scores above the threshold mean a probability above one half, on any scale: about half of the rows of a
// balanced set are positive.
func TestThresholdsHalve(t *testing.T) {
	random := rand.New(rand.NewPCG(4, 4))
	x := Matrix{Rows: 600, Cols: 2}
	var y []bool
	for i := range x.Rows {
		y = append(y, i%2 == 0)
		shift := -1.0
		if y[i] {
			shift = 1
		}
		x.Data = append(x.Data, shift+random.NormFloat64(), random.NormFloat64())
	}
	for _, model := range All() {
		n := 0
		for _, s := range fitAndScore(t, model, Rows{X: x, Positive: y}, x) {
			if s > model.Threshold() {
				n++
			}
		}
		if n < 255 || n > 345 {
			t.Errorf("%s: %d of 600 rows are called positive", model.Name(), n)
		}
	}
}

func TestRegressorsWeighRows(t *testing.T) {
	r, learn, exam := readRegressors(t)
	zero := Targets{X: Matrix{Cols: learn.X.Cols}}
	for i, w := range r.Weight {
		if w > 0 {
			zero.X.Data = append(zero.X.Data, learn.X.Row(i)...)
			zero.X.Rows++
			zero.Y, zero.Weight = append(zero.Y, r.Y[i]), append(zero.Weight, w)
		}
	}
	for k, model := range Regressors() {
		a, err := RegressionRMSE(model, learn, exam)
		testkit.Must(t, err)
		b, err := RegressionRMSE(Regressors()[k], zero, exam)
		if err != nil || a != b {
			t.Errorf("%s: rows of weight 0 change the error from %v to %v, %v", model.Name(), b, a, err)
		}
		c, err := RegressionRMSE(model, Targets{X: learn.X, Y: learn.Y}, exam)
		if err != nil || a == c {
			t.Errorf("%s: weights change nothing: %v, %v", model.Name(), c, err)
		}
	}
}

func TestRegressorsRefuse(t *testing.T) {
	x := Matrix{Rows: 3, Cols: 1, Data: []float64{1, 2, 3}}
	for _, model := range Regressors() {
		if _, err := model.Predict(x); err == nil {
			t.Errorf("%s: predicts before it is fitted", model.Name())
		}
		for name, bad := range map[string]Targets{
			"nothing": {}, "targets": {X: x, Y: []float64{1}}, "nan": {X: x, Y: []float64{1, math.NaN(), 2}},
			"infinite": {X: x, Y: []float64{1, math.Inf(1), 2}},
			"weights":  {X: x, Y: []float64{1, 2, 3}, Weight: []float64{1, -1, 1}},
			"all zero": {X: x, Y: []float64{1, 2, 3}, Weight: []float64{0, 0, 0}},
		} {
			err := model.Fit(bad)
			if err == nil || bad.Weight != nil && !errors.Is(err, ErrWeight) {
				t.Errorf("%s, %s: %v", model.Name(), name, err)
			}
		}
		// A constant is learned.
		if err := model.Fit(Targets{X: x, Y: []float64{7, 7, 7}}); err != nil {
			t.Errorf("%s: %v", model.Name(), err)
			continue
		}
		got, err := model.Predict(x)
		if err != nil || math.Abs(got[0]-7) > 0.5 {
			t.Errorf("%s: a constant 7 is %v, %v", model.Name(), got, err)
		}
		if _, err := model.Predict(Matrix{Rows: 1, Cols: 2, Data: []float64{1, 2}}); err == nil {
			t.Errorf("%s: predicts rows of other columns", model.Name())
		}
	}
}
