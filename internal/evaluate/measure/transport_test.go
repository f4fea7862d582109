package measure

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/conclave-dp/conclave/internal/testkit"
)

// In one dimension the transport of weighted points is the area between their
// distribution functions.
func TestTransportIsWassersteinInOneDimension(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		points := func(name string) (x, w []float64) {
			n := rapid.IntRange(1, 15).Draw(r, name)
			// Few values, so that many costs are equal or 0.
			x = rapid.SliceOfN(rapid.Map(rapid.IntRange(0, 9), func(v int) float64 {
				return float64(v) / 3
			}), n, n).Draw(r, name+" x")
			w = rapid.SliceOfN(rapid.Float64Range(0, 5), n, n).Draw(r, name+" w")
			w[0] += 0.01
			return x, w
		}
		a, wa := points("a")
		b, wb := points("b")
		cost := make([][]float64, len(a))
		for i := range a {
			for j := range b {
				cost[i] = append(cost[i], math.Abs(a[i]-b[j]))
			}
		}
		want, err := Wasserstein(a, b, wa, wb)
		if err != nil {
			r.Fatal(err)
		}
		got, err := Transport(cost, wa, wb)
		if err != nil || math.Abs(got-want) > 1e-10 {
			r.Fatalf("%v, %v; want %v", got, err, want)
		}
	})
}

func TestTransportOfManyPoints(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	const n = 300
	a, b := make([][]float64, n), make([][]float64, n)
	w := make([]float64, n)
	for i := range n {
		a[i], b[i] = []float64{random.NormFloat64(), random.NormFloat64()},
			[]float64{random.NormFloat64(), random.NormFloat64()}
		w[i] = random.ExpFloat64()
	}
	there, err := Transport(costs(a, b), w, nil)
	testkit.Must(t, err)
	back, err := Transport(costs(b, a), nil, w)
	if err != nil || math.Abs(there-back) > 1e-10 {
		t.Errorf("%v there, %v back, %v", there, back, err)
	}
	// If all points move by one vector, the distance is its length, for any weights.
	for i := range b {
		b[i] = []float64{a[i][0] + 3, a[i][1] - 4}
	}
	if got, err := Transport(costs(a, b), w, w); err != nil || math.Abs(got-5) > 1e-10 {
		t.Errorf("moved by 5: %v, %v", got, err)
	}
	if got, err := Transport(costs(a, a), w, w); err != nil || got > 1e-12 {
		t.Errorf("not moved: %v, %v", got, err)
	}
}

func TestTransportRefuses(t *testing.T) {
	for name, cost := range map[string][][]float64{
		"nothing": nil, "no sinks": {{}}, "ragged": {{1, 2}, {1}}, "negative": {{-1}}, "nan": {{math.NaN()}},
		"infinite": {{math.Inf(1)}}, "too many": slices.Repeat([][]float64{{1}}, 2001),
	} {
		if _, err := Transport(cost, nil, nil); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := Transport([][]float64{{1, 1}}, nil, []float64{1, -1}); !errors.Is(err, ErrWeights) {
		t.Errorf("negative weight: %v", err)
	}
}

func TestPrecisionByHand(t *testing.T) {
	// All tied: guessing, the share of positive rows. Right order: 1. The third: 1 for the
	// first half, then x/(x + f) with f growing from 0 to 1 as x does from 1 to 2:
	// x/(2x - 1), whose integral is 1/2 + log(3)/4.
	yes, no := true, false
	for _, c := range []struct {
		positive []bool
		scores   []float64
		want     float64
	}{
		{[]bool{yes, no, no, no}, []float64{1, 1, 1, 1}, 0.25},
		{[]bool{yes, yes, no, no}, []float64{4, 3, 2, 1}, 1},
		{[]bool{yes, yes, no}, []float64{4, 3, 3}, (1 + 0.5 + math.Log(3)/4) / 2},
	} {
		if got, err := InterpolatedPrecision(c.positive, c.scores, nil); err != nil || math.Abs(got-c.want) > 1e-15 {
			t.Errorf("%v: %v, %v; want %v", c.scores, got, err, c.want)
		}
	}
	if _, err := InterpolatedPrecision([]bool{yes}, []float64{1}, nil); !errors.Is(err, ErrOneClass) {
		t.Errorf("one class: %v", err)
	}
	for name, call := range map[string]func() (float64, error){
		"nan":       func() (float64, error) { return Accuracy([]bool{yes}, []float64{math.NaN()}, 0, nil) },
		"threshold": func() (float64, error) { return Accuracy([]bool{yes}, []float64{1}, math.NaN(), nil) },
		"lengths":   func() (float64, error) { return Accuracy([]bool{yes}, nil, 0, nil) },
		"no rows":   func() (float64, error) { return Accuracy(nil, nil, 0, nil) },
		"weights":   func() (float64, error) { return Accuracy([]bool{yes}, []float64{1}, 0, []float64{-1}) },
	} {
		if got, err := call(); err == nil {
			t.Errorf("accuracy, %s: %v", name, got)
		}
	}
}
