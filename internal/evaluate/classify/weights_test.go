package classify

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// repeated writes each row as many times as its weight says.
func repeated(r Rows) Rows {
	out := Rows{X: Matrix{Cols: r.X.Cols}}
	for i, w := range r.Weight {
		for range int(w) {
			out.X.Data = append(out.X.Data, r.X.Row(i)...)
			out.X.Rows++
			out.Positive = append(out.Positive, r.Positive[i])
		}
	}
	return out
}

// This holds draw by draw, also for random models.
func TestWeightZeroLeavesOut(t *testing.T) {
	x, y := world(5, 250, 4, false)
	rng := rand.New(rand.NewPCG(1, 1))
	weights := make([]float64, x.Rows)
	for i := range weights {
		weights[i] = float64(rng.IntN(2))
	}
	rows := Rows{X: x, Positive: y, Weight: weights}
	for k, model := range All() {
		got := fitAndScore(t, model, rows, x)
		if want := fitAndScore(t, All()[k], repeated(rows), x); !slices.Equal(got, want) {
			t.Errorf("%s: rows of weight 0 change the scores", model.Name())
		}
	}
}

func TestWeightTwoIsTheRowTwice(t *testing.T) {
	x, y := world(6, 100, 3, false) // few, so that all copies fit into a batch of the perceptron
	test, _ := world(7, 500, 3, false)
	rng := rand.New(rand.NewPCG(2, 2))
	weights := make([]float64, x.Rows)
	for i := range weights {
		weights[i] = float64(rng.IntN(4))
	}
	rows := Rows{X: x, Positive: y, Weight: weights}
	for k, model := range All() {
		tolerance := 1e-6
		switch model.Name() {
		case "random forest", "bagging":
			continue // in distribution only: see the next test
		case mlpName:
			tolerance = 0.01 // float32, added up in another order
		}
		got := fitAndScore(t, model, rows, test)
		want := fitAndScore(t, All()[k], repeated(rows), test)
		largest := 0.0
		for i := range got {
			largest = max(largest, math.Abs(got[i]-want[i]))
		}
		t.Logf("%s: at most %.1g off", model.Name(), largest)
		if !(largest <= tolerance) {
			t.Errorf("%s: weights and copies differ by %v", model.Name(), largest)
		}
	}
}

// With many trees, the means over samples of weighted rows and of copies agree.
func TestBootstrapWeighsInDistribution(t *testing.T) {
	if testing.Short() {
		t.Skip("one thread of arithmetic, and slow with a race detector")
	}
	x, y := world(8, 50, 3, true)
	rng := rand.New(rand.NewPCG(3, 3))
	weights := make([]float64, x.Rows)
	for i := range weights {
		weights[i] = float64(1 + 3*rng.IntN(2))
	}
	rows := Rows{X: x, Positive: y, Weight: weights}
	const trees = 1500
	for _, build := range []func(int, uint64) *Classifier{bagging, randomForest} {
		model := build(trees, 1)
		got := fitAndScore(t, model, rows, x)
		want := fitAndScore(t, build(trees, 2), repeated(rows), x)
		unweighted := fitAndScore(t, build(trees, 3), Rows{X: x, Positive: y}, x)
		off, without := 0.0, 0.0
		for i := range got {
			off = max(off, math.Abs(got[i]-want[i]))
			without = max(without, math.Abs(unweighted[i]-want[i]))
		}
		t.Logf("%s: at most %.3f off, %.3f without weights", model.Name(), off, without)
		// A mean of 1,500 shares has a standard deviation of at most 0.013; two of
		// them, in 50 rows, differ by less than five times 0.018.
		if off > 0.09 || without < 2*off {
			t.Errorf("%s: weights and copies differ by %.3f, no weights and copies by %.3f", model.Name(), off, without)
		}
	}
	source := rand.NewPCG(4, 4)
	for _, mean := range []float64{0.3, 1, 2, 40, 1e7} {
		sum, squares := 0.0, 0.0
		const n = 20000
		for range n {
			k := times(mean, source)
			sum += k
			squares += k * k
		}
		average := sum / n
		variance := squares/n - average*average
		if math.Abs(average-mean) > 6*math.Sqrt(mean/n) {
			t.Errorf("rows of weight %v are drawn %v times on average", mean, average)
		}
		if mean < 1e6 && math.Abs(variance/mean-1) > 0.1 {
			t.Errorf("rows of weight %v are drawn with variance %v", mean, variance)
		}
	}
}

// These do not depend on the unit of the weights; the others, whose penalties or
// least leaves count rows, do.
func TestUnitOfWeights(t *testing.T) {
	x, y := world(9, 200, 3, false)
	rng := rand.New(rand.NewPCG(5, 5))
	for _, unit := range []float64{1e-90, 0x1p-10, 1e90} {
		weights, scaled := make([]float64, x.Rows), make([]float64, x.Rows)
		for i := range weights {
			weights[i] = 0.5 + rng.Float64()
			scaled[i] = weights[i] * unit
		}
		for _, build := range []func() *Classifier{
			gaussianBayes, func() *Classifier { return DecisionTree(1) }, discriminant,
			func() *Classifier { return adaBoost(20) }, func() *Classifier { return firstOrderBoosting(5) },
		} {
			want := fitAndScore(t, build(), Rows{X: x, Positive: y, Weight: weights}, x)
			got := fitAndScore(t, build(), Rows{X: x, Positive: y, Weight: scaled}, x)
			for i := range got {
				if math.Abs(got[i]-want[i]) > 1e-6 {
					t.Errorf("%s, unit %v: score %v, want %v", build().Name(), unit, got[i], want[i])
					break
				}
			}
		}
	}
}
