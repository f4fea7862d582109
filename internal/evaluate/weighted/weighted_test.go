package weighted

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"
	"pgregory.net/rapid"

	"github.com/conclave-dp/conclave/internal/evaluate/measure"
	"github.com/conclave-dp/conclave/internal/testkit"
	_ "github.com/conclave-dp/conclave/internal/testkit/draws" // the same seed in every run
)

// world is rows with whole weights, some of them 0, and the same rows repeated as their weights say.
type world struct {
	x, copiesX [][]float64
	y, copiesY []float64
	b, copiesB []bool
	weight     []float64
}

func newWorld(seed uint64, rows, columns int) world {
	random := rand.New(rand.NewPCG(seed, 1))
	var w world
	for range rows {
		row := []float64{1}
		z := 0.0
		for range columns {
			row = append(row, random.NormFloat64())
			z += row[len(row)-1]
		}
		w.x, w.y = append(w.x, row), append(w.y, 2+z+random.NormFloat64())
		w.b = append(w.b, z/2+random.NormFloat64() > 0)
		w.weight = append(w.weight, float64(random.IntN(4)))
	}
	w.weight[0] = 1
	for i, v := range w.weight {
		for range int(v) {
			w.copiesX, w.copiesY, w.copiesB = append(w.copiesX, w.x[i]), append(w.copiesY, w.y[i]),
				append(w.copiesB, w.b[i])
		}
	}
	return w
}

func column(x [][]float64, j int) []float64 {
	out := make([]float64, len(x))
	for i := range x {
		out[i] = x[i][j]
	}
	return out
}

func TestWholeWeightsAreRepeatedRows(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		w := newWorld(rapid.Uint64().Draw(r, "seed"), 60, 2)
		close := func(name string, got, want float64) {
			if !(math.Abs(got-want) <= 1e-9*math.Max(1, math.Abs(want))) {
				r.Errorf("%s: %v with weights, %v with copies", name, got, want)
			}
		}
		a, copies := column(w.x, 1), column(w.copiesX, 1)
		for name, of := range map[string]func(x, y, weight []float64) (Estimate, error){
			"mean":     func(x, _, weight []float64) (Estimate, error) { return Mean(x, weight) },
			"variance": func(x, _, weight []float64) (Estimate, error) { return Variance(x, weight) },
			"median":   func(x, _, weight []float64) (Estimate, error) { return Quantile(x, weight, 0.5) },
			"decile":   func(x, _, weight []float64) (Estimate, error) { return Quantile(x, weight, 0.1) },
			"ratio":    func(x, y, weight []float64) (Estimate, error) { return Ratio(x, y, weight) },
		} {
			got, err1 := of(a, w.y, w.weight)
			want, err2 := of(copies, w.copiesY, nil)
			if err1 != nil || err2 != nil {
				r.Fatal(err1, err2)
			}
			close(name, got.Value, want.Value)
		}
		line, err1 := Linear(w.x, w.y, w.weight)
		lineCopies, err2 := Linear(w.copiesX, w.copiesY, nil)
		odds, err3 := Logistic(w.x, w.b, w.weight)
		oddsCopies, err4 := Logistic(w.copiesX, w.copiesB, nil)
		prior := NewNormalInverseGamma([]float64{1, 0, -1}, []float64{2, 1, 0.5}, 2, 3)
		bayes, err5 := prior.Update(w.x, w.y, w.weight)
		bayesCopies, err6 := prior.Update(w.copiesX, w.copiesY, nil)
		normal := NewNormal([]float64{0, 0.5, 0}, []float64{1, 2, 3})
		logit, err7 := normal.UpdateLogistic(w.x, w.b, w.weight)
		logitCopies, err8 := normal.UpdateLogistic(w.copiesX, w.copiesB, nil)
		if err := errors.Join(err1, err2, err3, err4, err5, err6, err7, err8); err != nil {
			r.Fatal(err)
		}
		for j := range 3 {
			close("linear", line.Coefficients[j], lineCopies.Coefficients[j])
			close("logistic", odds.Coefficients[j], oddsCopies.Coefficients[j])
			close("posterior mean", bayes.Mean[j], bayesCopies.Mean[j])
			close("posterior precision", bayes.Precision.At(j, 1), bayesCopies.Precision.At(j, 1))
			close("mode", logit.Laplace.Mean[j], logitCopies.Laplace.Mean[j])
			close("Laplace covariance", logit.Laplace.Covariance.At(j, 1), logitCopies.Laplace.Covariance.At(j, 1))
		}
		close("shape", bayes.Shape, bayesCopies.Shape)
		close("rate", bayes.Rate, bayesCopies.Rate)
		theta := []float64{0.1, 1, -1}
		close("density", logit.LogDensity(theta), logitCopies.LogDensity(theta))
	})
}

// Doubling all weights changes no self-normalized figure, nor its error.
func TestUnitOfWeightsDoesNotMatter(t *testing.T) {
	w := newWorld(3, 80, 2)
	for _, unit := range []float64{1e-200, 0.5, 7, 1e200} {
		scaled := slices.Clone(w.weight)
		for i := range scaled {
			scaled[i] *= unit
		}
		a, err1 := Mean(w.y, w.weight)
		b, err2 := Mean(w.y, scaled)
		line, err3 := Linear(w.x, w.y, w.weight)
		lineScaled, err4 := Linear(w.x, w.y, scaled)
		odds, err5 := Logistic(w.x, w.b, w.weight)
		oddsScaled, err6 := Logistic(w.x, w.b, scaled)
		testkit.Must(t, errors.Join(err1, err2, err3, err4, err5, err6))
		near(t, "mean", []float64{b.Value, b.StandardError}, []float64{a.Value, a.StandardError}, 1e-12)
		near(t, "linear", lineScaled.StandardErrors, line.StandardErrors, 1e-12)
		near(t, "logistic", oddsScaled.Coefficients, odds.Coefficients, 1e-9)
		near(t, "logistic errors", oddsScaled.StandardErrors, odds.StandardErrors, 1e-9)
		near(t, "effective size", []float64{EffectiveSize(scaled)}, []float64{EffectiveSize(w.weight)}, 1e-12)
	}
}

// Rows of one density are weighted to another: intervals of two standard errors contain the truth about as
// often as they should. With 400 samples the share has a standard deviation of 0.011, and 0.90 is 4.6 of them
// below 0.954. The seed is fixed.
func TestStandardErrorsCover(t *testing.T) {
	random := rand.New(rand.NewPCG(8, 8))
	const samples, rows = 400, 400
	inside := map[string]int{}
	for range samples {
		var x [][]float64
		var first, y, weight []float64
		var b []bool
		for range rows {
			v := random.NormFloat64() // proposed N(0,1), wanted N(0.5,1): weight exp(v/2 - 1/8)
			x, first = append(x, []float64{1, v}), append(first, v)
			weight = append(weight, math.Exp(v/2-0.125))
			y = append(y, 1+2*v+random.NormFloat64()*(1+0.5*math.Abs(v)))
			b = append(b, random.Float64() < sigmoid(0.3+0.8*v))
		}
		count := func(name string, e Estimate, err error, truth float64) {
			if err != nil {
				t.Fatal(name, err)
			}
			if math.Abs(e.Value-truth) <= 2*e.StandardError {
				inside[name]++
			}
		}
		e, err := Mean(first, weight)
		count("mean", e, err, 0.5)
		e, err = PlainMean(first, weight)
		count("plain mean", e, err, 0.5)
		e, err = Variance(first, weight)
		count("variance", e, err, 1)
		e, err = Quantile(first, weight, 0.5)
		count("median", e, err, 0.5)
		e, err = Ratio(y, first, weight) // (1 + 2*0.5) / 0.5
		count("ratio", e, err, 4)
		fit, err := Linear(x, y, weight)
		count("linear", Estimate{fit.Coefficients[1], fit.StandardErrors[1]}, err, 2)
		fit, err = Logistic(x, b, weight)
		count("logistic", Estimate{fit.Coefficients[1], fit.StandardErrors[1]}, err, 0.8)
	}
	for name, n := range inside {
		share := float64(n) / samples
		t.Logf("%s: %.3f", name, share)
		if share < 0.90 || share > 0.99 {
			t.Errorf("%s: %.3f of the intervals hold the truth, want about 0.954", name, share)
		}
	}
}

func TestUnusableWeights(t *testing.T) {
	x := [][]float64{{1, 2}, {1, 3}, {1, 5}}
	y, b := []float64{1, 2, 4}, []bool{true, false, true}
	prior, normal := NewNormalInverseGamma([]float64{0, 0}, []float64{1, 1}, 1, 1),
		NewNormal([]float64{0, 0}, []float64{1, 1})
	calls := map[string]func(w []float64) error{
		"mean":      func(w []float64) error { _, err := Mean(y, w); return err },
		"plain":     func(w []float64) error { _, err := PlainMean(y, w); return err },
		"variance":  func(w []float64) error { _, err := Variance(y, w); return err },
		"quantile":  func(w []float64) error { _, err := Quantile(y, w, 0.5); return err },
		"ratio":     func(w []float64) error { _, err := Ratio(y, y, w); return err },
		"linear":    func(w []float64) error { _, err := Linear(x, y, w); return err },
		"logistic":  func(w []float64) error { _, err := Logistic(x, b, w); return err },
		"conjugate": func(w []float64) error { _, err := prior.Update(x, y, w); return err },
		"laplace":   func(w []float64) error { _, err := normal.UpdateLogistic(x, b, w); return err },
	}
	for why, w := range map[string][]float64{
		"negative": {1, -1, 1}, "nan": {1, math.NaN(), 1}, "infinite": {1, math.Inf(1), 1},
		"all zero": {0, 0, 0}, "too few": {1, 1}, "too many": {1, 1, 1, 1}, "none": {},
	} {
		for name, call := range calls {
			if err := call(w); !errors.Is(err, ErrWeights) {
				t.Errorf("%s, %s: %v", name, why, err)
			}
		}
		if why == "too few" || why == "too many" {
			continue // no rows to count there
		}
		if _, err := Scale(w, SumOfRows); err == nil {
			t.Errorf("scale, %s: accepted", why)
		}
	}
	if _, err := prior.Update(x, y, []float64{1e300, 1e300, 1}); !errors.Is(err, ErrWeights) {
		t.Errorf("weights that no number of rows can be: %v", err)
	}
}

func TestOtherBadInput(t *testing.T) {
	good := [][]float64{{1, 2}, {1, 3}, {1, 5}, {1, 6}}
	y, b := []float64{1, 2, 4, 4}, []bool{true, false, true, false}
	nan, inf := math.NaN(), math.Inf(1)
	prior := NewNormalInverseGamma([]float64{0, 0}, []float64{1, 1}, 1, 1)
	for name, err := range map[string]error{
		"no rows":         second(Mean(nil, nil)),
		"nan":             second(Mean([]float64{1, nan}, nil)),
		"share":           second(Quantile(y, nil, 1.5)),
		"share nan":       second(Quantile(y, nil, nan)),
		"nothing below":   second(Ratio(y, make([]float64, 4), nil)),
		"overflow":        second(Variance([]float64{1e300, -1e300}, nil)),
		"unequal":         second(Ratio(y, y[:2], nil)),
		"no design":       second(Linear(nil, nil, nil)),
		"no columns":      second(Linear([][]float64{{}}, []float64{1}, nil)),
		"ragged":          second(Linear([][]float64{{1}, {1, 2}}, y[:2], nil)),
		"infinite":        second(Linear([][]float64{{inf}, {1}}, y[:2], nil)),
		"target":          second(Linear(good, []float64{1, 2, 3, nan}, nil)),
		"targets":         second(Logistic(good, b[:3], nil)),
		"prior's size":    second(NewNormal([]float64{0}, []float64{1}).UpdateLogistic(good, b, nil)),
		"prior's mean":    second(NewNormal([]float64{nan, 0}, []float64{1, 1}).UpdateLogistic(good, b, nil)),
		"no spread":       second(NewNormal([]float64{0, 0}, []float64{1, 0}).UpdateLogistic(good, b, nil)),
		"empty prior":     second(Normal{}.UpdateLogistic(good, b, nil)),
		"empty conjugate": second(NormalInverseGamma{}.Update(good, y, nil)),
		"shape":           second(NewNormalInverseGamma([]float64{0, 0}, []float64{1, 1}, 0, 1).Update(good, y, nil)),
		"infinite spread": second(NewNormalInverseGamma([]float64{0, 0}, []float64{1, inf}, 1, 1).Update(good, y,
			nil)),
		"no coefficient":    second(prior.Coefficient(2)),
		"size not finite":   second(Scale([]float64{1}, func([]float64) float64 { return inf })),
		"empty conjugate 2": second(NormalInverseGamma{}.Coefficient(0)),
	} {
		if err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := Linear([][]float64{{1, 2}, {2, 4}, {3, 6}}, y[:3], nil); !errors.Is(err, ErrDependent) {
		t.Errorf("dependent columns: %v", err)
	}
	if _, err := Linear(good, y, []float64{1, 0, 0, 0}); !errors.Is(err, ErrDependent) {
		t.Errorf("one row that counts, two columns: %v", err)
	}
	if _, err := Logistic([][]float64{{1, 0}, {1, 0}}, b[:2], nil); !errors.Is(err, ErrDependent) {
		t.Errorf("a column of zeros: %v", err)
	}
	separated := []bool{false, false, true, true}
	if _, err := Logistic(good, separated, nil); !errors.Is(err, ErrSeparated) {
		t.Errorf("separated rows: %v", err)
	}
	if _, err := Logistic(good, []bool{true, true, true, true}, nil); !errors.Is(err, ErrSeparated) {
		t.Errorf("one class: %v", err)
	}
	if _, err := NewNormal([]float64{0, 0}, []float64{10, 10}).UpdateLogistic(good, separated, nil); err != nil {
		t.Errorf("separated rows and a prior: %v", err)
	}
	p, err := NewNormal([]float64{0, 0}, []float64{1, 1}).UpdateLogistic(good, b, nil)
	testkit.Must(t, err)
	if _, err := p.Sample(0, SampleOptions{}); err == nil {
		t.Error("no draws were drawn")
	}
}

func second[T any](_ T, err error) error { return err }

func TestScale(t *testing.T) {
	weight := []float64{0, 3, 1, 4}
	for want, size := range map[float64]Size{
		4: SumOfRows, 64.0 / 26: EffectiveSize, 100: func([]float64) float64 { return 100 },
	} {
		got, err := Scale(weight, size)
		if err != nil || math.Abs(measure.Sum(got)-want) > 1e-12 || got[0] != 0 || math.Abs(got[3]/got[2]-4) > 1e-12 {
			t.Errorf("%v, %v: want a sum of %v", got, err, want)
		}
	}
}

// Successive updates equal one update with all rows.
func TestConjugateUpdatesAddUp(t *testing.T) {
	w := newWorld(9, 50, 2)
	prior := NewNormalInverseGamma([]float64{1, 2, 3}, []float64{1, 1, 2}, 2, 2)
	whole, err1 := prior.Update(w.x, w.y, w.weight)
	half, err2 := prior.Update(w.x[:20], w.y[:20], w.weight[:20])
	testkit.Must(t, errors.Join(err1, err2))
	both, err := half.Update(w.x[20:], w.y[20:], w.weight[20:])
	testkit.Must(t, err)
	near(t, "mean", both.Mean, whole.Mean, 1e-11)
	near(t, "shape and rate", []float64{both.Shape, both.Rate}, []float64{whole.Shape, whole.Rate}, 1e-11)

	// Its draws have its moments: 20,000 of them, a fixed seed, bounds of five standard errors.
	beta, variance, err := whole.Sample(20_000, 4)
	testkit.Must(t, err)
	for j := range 3 {
		marginal, err := whole.Coefficient(j)
		testkit.Must(t, err)
		e, _ := Mean(column(beta, j), nil)
		v, _ := Variance(column(beta, j), nil)
		if math.Abs(e.Value-marginal.Mean()) > 5*e.StandardError ||
			math.Abs(v.Value-marginal.Variance()) > 5*v.StandardError {
			t.Errorf("draws of coefficient %d: mean %v, variance %v; want %v, %v", j, e, v, marginal.Mean(),
				marginal.Variance())
		}
	}
	if e, _ := Mean(variance, nil); math.Abs(e.Value-whole.Variance().Mean()) > 5*e.StandardError {
		t.Errorf("draws of the variance: mean %v, want %v", e, whole.Variance().Mean())
	}
}

// Of many rows the sampler agrees with Laplace's approximation, correlations included.
func TestSamplerAgreesWithLaplaceOnManyRows(t *testing.T) {
	w := newWorld(11, 1000, 2)
	p, err := NewNormal([]float64{0, 0, 0}, []float64{5, 5, 5}).UpdateLogistic(w.x, w.b, w.weight)
	testkit.Must(t, err)
	draws, err := p.Sample(2_000, SampleOptions{Seed: 2})
	testkit.Must(t, err)
	again, _ := p.Sample(100, SampleOptions{Seed: 2})
	if !slices.EqualFunc(draws.Theta[:100], again.Theta, slices.Equal[[]float64]) {
		t.Error("the same seed gives other draws")
	}
	if draws.Accepted < 0.6 {
		t.Errorf("%.2f of the proposals accepted", draws.Accepted)
	}
	mean := draws.Mean()
	covariance := mat.NewSymDense(3, nil)
	for _, theta := range draws.Theta {
		covariance.SymRankOne(covariance, 1/float64(len(draws.Theta)), mat.NewVecDense(3, difference(theta, mean)))
	}
	for j := range 3 {
		s := math.Sqrt(p.Laplace.Covariance.At(j, j))
		if math.Abs(mean[j]-p.Laplace.Mean[j]) > 0.2*s {
			t.Errorf("mean %d is %v, the mode %v, deviation %v", j, mean[j], p.Laplace.Mean[j], s)
		}
		for k := range j + 1 {
			scale := s * math.Sqrt(p.Laplace.Covariance.At(k, k))
			if math.Abs(covariance.At(j, k)-p.Laplace.Covariance.At(j, k)) > 0.2*scale {
				t.Errorf("covariance %d, %d is %v, want %v", j, k, covariance.At(j, k), p.Laplace.Covariance.At(j, k))
			}
		}
	}
}
