package ratio

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/conclave-dp/conclave/internal/testkit"
)

func TestWeightsByHand(t *testing.T) {
	beta, x := []float64{1, -2}, []float64{1, 0.5, 1, 0}
	close := cmpopts.EquateApprox(1e-14, 0)
	for _, c := range []struct {
		noise Noise
		want  []float64
	}{
		{Noise{}, []float64{1, math.E}},
		{Noise{Laplace, 0.5}, []float64{0.75 * 0.9375, math.E * 0.75}},
		{Noise{NormGamma, 0.5}, []float64{math.Pow(1-0.25*1.25, 1.5), math.E * math.Pow(0.75, 1.5)}},
		{Noise{Gaussian, 2}, []float64{math.Exp(-2.5), math.Exp(-1)}},
	} {
		w, err := Weights(beta, x, c.noise)
		if diff := cmp.Diff(c.want, w, close); diff != "" || err != nil {
			t.Errorf("%+v: %v %s", c.noise, err, diff)
		}
	}
	if diff := cmp.Diff([]float64{2 / (1 + math.E), 2 * math.E / (1 + math.E)},
		SelfNormalized(testkit.Value(LogWeights(beta, x, Noise{}))), close); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]float64{2, 0}, SelfNormalized([]float64{1e6, -1e6})); diff != "" ||
		SelfNormalized(nil) != nil {
		t.Error(diff)
	}
	for _, c := range [][2]int{{0, 2}, {2, 3}} {
		if w, err := Weights(make([]float64, c[0]), make([]float64, c[1]), Noise{}); !errors.Is(err, ErrShape) ||
			w != nil {
			t.Errorf("%v, %v", w, err)
		}
	}
}

func TestEffectiveSize(t *testing.T) {
	for _, c := range []struct {
		weights []float64
		want    float64
	}{{[]float64{3, 3, 3}, 3}, {[]float64{0, 1e300, 0}, 1}, {[]float64{1e-300, 3e-300}, 1.6}} {
		if got, err := EffectiveSize(c.weights); err != nil || math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%v: %v, %v", c.weights, got, err)
		}
	}
	for _, bad := range [][]float64{nil, {0, 0}, {1, -1}, {1, math.NaN()}, {math.Inf(1)}} {
		if n, err := EffectiveSize(bad); !errors.Is(err, ErrWeights) {
			t.Errorf("%v: %v, %v", bad, n, err)
		}
		if rows, err := Resample(bad, 3, 1); !errors.Is(err, ErrWeights) || rows != nil {
			t.Errorf("%v: %v, %v", bad, rows, err)
		}
	}
}

// Every row comes up as often as its weight says, rounded down or up; the same seed gives
// the same rows.
func TestResample(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		weights := rapid.SliceOfN(rapid.OneOf(rapid.Float64Range(0, 1), rapid.Just(0.0), rapid.Float64Range(0, 1e300)),
			1, 20).Draw(t, "weights")
		sum := 0.0
		for _, w := range weights {
			sum += w
		}
		if sum == 0 {
			t.Skip("nothing to draw")
		}
		n, seed := rapid.IntRange(0, 50).Draw(t, "n"), rapid.Uint64().Draw(t, "seed")
		rows, err := Resample(weights, n, seed)
		if err != nil || len(rows) != n || !slices.IsSorted(rows) {
			t.Fatalf("%v, %v", rows, err)
		}
		counts := make([]float64, len(weights))
		for _, i := range rows {
			counts[i]++
		}
		for i, w := range weights {
			if want := float64(n) * w / sum; math.Abs(counts[i]-want) > 1+1e-9 || w == 0 && counts[i] > 0 {
				t.Fatalf("row %d came up %v times, want %v", i, counts[i], want)
			}
		}
		if again, _ := Resample(weights, n, seed); !slices.Equal(rows, again) {
			t.Fatal("other rows with the same seed")
		}
	})
	if rows, err := Resample([]float64{1}, -1, 0); !errors.Is(err, ErrSpec) || rows != nil {
		t.Errorf("%v, %v", rows, err)
	}
}

// Over seeds the mean count of a row agrees with its weight: 4,000 fixed seeds, within 6 standard errors.
func TestResampleIsUnbiased(t *testing.T) {
	weights := []float64{0.15, 0.05, 0.8}
	counts := make([]float64, 3)
	const seeds = 4000
	for seed := range uint64(seeds) {
		for _, i := range testkit.Value(Resample(weights, 2, seed)) {
			counts[i]++
		}
	}
	for i, w := range weights {
		if mean := counts[i] / seeds; math.Abs(mean-2*w) > 6*0.5/math.Sqrt(seeds) {
			t.Errorf("row %d came up %v times on average, want %v", i, mean, 2*w)
		}
	}
}
