package measure

import (
	"errors"
	"math"
	"testing"

	"pgregory.net/rapid"

	_ "github.com/conclave-dp/conclave/internal/testkit/draws" // the same seed in every run
)

func TestRankingAgreementByHand(t *testing.T) {
	for _, c := range []struct {
		name string
		a, b []float64
		want float64
	}{
		{"the same order", []float64{1, 2, 3}, []float64{10, 11, 90}, 1},
		{"reversed", []float64{1, 2, 3}, []float64{3, 2, 1}, 0},
		{"two changed places", []float64{1, 2, 3}, []float64{2, 1, 3}, 2.0 / 3},
		{"tied in one", []float64{1, 2, 3}, []float64{1, 1, 3}, 2.0 / 3},
		{"tied in both", []float64{2, 2, 3}, []float64{5, 5, 9}, 1},
		{"all tied in one", []float64{1, 2}, []float64{4, 4}, 0},
	} {
		if got, err := RankingAgreement(c.a, c.b); err != nil || math.Abs(got-c.want) > 1e-15 {
			t.Errorf("%s: %v, %v; want %v", c.name, got, err, c.want)
		}
	}
	if _, err := RankingAgreement([]float64{1}, []float64{1}); !errors.Is(err, ErrTooFew) {
		t.Errorf("one thing: %v", err)
	}
	if _, err := RankingAgreement([]float64{1, 2}, []float64{1}); err == nil {
		t.Error("lists of unequal length were taken")
	}
	if _, err := RankingAgreement([]float64{1, math.NaN()}, []float64{1, 2}); err == nil {
		t.Error("NaN was taken")
	}
}

// The formula of the paper, over all ordered pairs, where nothing is tied.
func TestRankingAgreementIsTheFormulaWithoutTies(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := rapid.IntRange(2, 8).Draw(t, "k")
		r := rapid.SliceOfNDistinct(rapid.Float64Range(0, 1), k, k, rapid.ID).Draw(t, "r")
		s := rapid.SliceOfNDistinct(rapid.Float64Range(0, 1), k, k, rapid.ID).Draw(t, "s")
		agreed := 0
		for i := range k {
			for j := range k {
				if i != j && (r[i] > r[j]) == (s[i] > s[j]) {
					agreed++
				}
			}
		}
		want := float64(agreed) / float64(k*(k-1))
		got, err := RankingAgreement(r, s)
		back, _ := RankingAgreement(s, r)
		if err != nil || math.Abs(got-want) > 1e-15 || back != got {
			t.Fatalf("%v, %v; want %v; the other way round %v", got, err, want, back)
		}
	})
}

func TestPMSEByHand(t *testing.T) {
	// c = 1/2: (0.3^2 + 0.1^2 + 0.1^2 + 0.5^2)/4
	got, err := PMSE([]bool{true, true, false, false}, []float64{0.8, 0.6, 0.4, 0}, nil)
	if err != nil || math.Abs(got-0.09) > 1e-15 {
		t.Errorf("pmse is %v, %v; want 0.09", got, err)
	}
	if got, err = PMSE([]bool{true, false, false, false}, []float64{1, 0, 0, 0}, nil); err != nil || got != 0.25*0.75 {
		t.Errorf("pmse of rows told apart is %v, %v; want c(1-c)", got, err)
	}
	if _, err := PMSE([]bool{true, true}, []float64{1, 1}, nil); !errors.Is(err, ErrOneClass) {
		t.Errorf("synthetic rows only: %v", err)
	}
	for _, p := range []float64{-0.1, 1.1, math.NaN()} {
		if _, err := PMSE([]bool{true, false}, []float64{p, 0}, nil); err == nil {
			t.Errorf("a probability of %v was taken", p)
		}
	}
	if got, err := ExpectedPMSE(9, 0.25, 1000); err != nil || math.Abs(got-8*0.75*0.75*0.25/1000) > 1e-18 {
		t.Errorf("expected pmse: %v, %v", got, err)
	}
	for _, bad := range []func() (float64, error){
		func() (float64, error) { return ExpectedPMSE(0, 0.5, 10) },
		func() (float64, error) { return ExpectedPMSE(2, 1, 10) },
		func() (float64, error) { return ExpectedPMSE(2, 0.5, math.NaN()) },
	} {
		if _, err := bad(); err == nil {
			t.Error("an impossible expectation was computed")
		}
	}
}

func TestMeansByHand(t *testing.T) {
	if got, err := RMSE([]float64{1, 2}, []float64{4, 6}, nil); err != nil || math.Abs(got-math.Sqrt(12.5)) > 1e-15 {
		t.Errorf("rmse is %v, %v", got, err)
	}
	if got, err := RMSE([]float64{1e308, 1}, []float64{-0.5e308, 1}, []float64{1, 3}); err != nil ||
		math.Abs(got/0.75e308-1) > 1e-15 {
		t.Errorf("rmse of huge numbers is %v, %v", got, err)
	}
	if got, err := RMSE([]float64{3, 3}, []float64{3, 3}, nil); err != nil || got != 0 {
		t.Errorf("rmse of the truth is %v, %v", got, err)
	}
	if got, err := Median([]float64{9, 1, 4, 100}, []float64{1, 1, 2, 0}); err != nil || got != 4 {
		t.Errorf("median is %v, %v; want 4", got, err)
	}
	if got, err := Median([]float64{3, 1}, nil); err != nil || got != 2 {
		t.Errorf("median is %v, %v; want 2", got, err)
	}
	if _, err := Median(nil, nil); !errors.Is(err, ErrNoValues) {
		t.Errorf("median of nothing: %v", err)
	}
	if _, err := RMSE([]float64{1}, []float64{math.Inf(1)}, nil); err == nil {
		t.Error("an infinite prediction was taken")
	}
}
