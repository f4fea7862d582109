package gnmax

import (
	"errors"
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"

	"github.com/conclave-dp/conclave/internal/testkit"
)

func errorOf[T any](_ T, err error) error { return err }

func TestParametersAreRefused(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	sigmas := []float64{0, -1, nan, inf, -inf, 0.999, 1e10}
	epsilons := []float64{0, -1, nan, inf, -inf, 1e-12, 5e-324, 1e300}
	for name, c := range map[string]struct {
		made func(x float64) error
		bad  []float64
	}{
		"sigma":          {func(x float64) error { return errorOf(NewSigma(x)) }, sigmas},
		"sigma of gnmax": {func(x float64) error { return errorOf(NewGNMax(x, false)) }, sigmas},
		"sigma1":         {func(x float64) error { return errorOf(NewConfident(10, x, 5, false)) }, sigmas},
		"sigma2":         {func(x float64) error { return errorOf(NewConfident(10, 5, x, false)) }, sigmas},
		"threshold": {func(x float64) error { return errorOf(NewConfident(x, 5, 5, false)) },
			[]float64{-1, nan, inf, 1e300}},
		"lambda":              {func(x float64) error { return errorOf(NewLNMax(x, false)) }, epsilons},
		"epsilon of a choice": {func(x float64) error { return errorOf(NewExponential(x, 1)) }, epsilons},
		"epsilon of counts": {func(x float64) error {
			return errorOf(LaplaceCounts(NewSource(), []int64{1}, 1, x))
		}, epsilons},
		"multiplier": {func(x float64) error { return errorOf(NewGaussianSum(10, x)) },
			[]float64{0, -1, nan, inf, -inf, 0.0999, 5e-324, 1e9}},
		"clip norm": {func(x float64) error { return errorOf(NewFixedPoint(x, 1<<20)) },
			[]float64{0, -1, nan, inf, -inf, 5e-324}},
	} {
		for _, bad := range c.bad {
			if err := c.made(bad); !errors.Is(err, ErrParameter) {
				t.Errorf("%s %v: error is %v", name, bad, err)
			}
		}
	}
	for name, c := range map[string]struct {
		made func(n int64) error
		bad  []int64
	}{
		"unit": {func(n int64) error { return errorOf(LaplaceCounts(NewSource(), []int64{1}, n, 1)) }, []int64{0, -1}},
		"bound": {func(n int64) error { return errorOf(NewGaussianSum(n, 1)) },
			[]int64{0, -1, math.MinInt64, math.MaxInt64, maxSigma + 1}},
		"steps": {func(n int64) error { return errorOf(NewFixedPoint(1, n)) },
			[]int64{0, -1, maxBound + 1, math.MaxInt64}},
		"sensitivity": {func(n int64) error { return errorOf(NewExponential(1, n)) },
			[]int64{0, -1, math.MinInt64, math.MaxInt64, maxCount}},
	} {
		for _, bad := range c.bad {
			if err := c.made(bad); !errors.Is(err, ErrParameter) {
				t.Errorf("%s %d: error is %v", name, bad, err)
			}
		}
	}
	for _, bad := range [][2]uint64{{0, 1}, {1, 0}, {0, 0}, {1<<38 + 1, 1}, {math.MaxUint64, 1 << 20}} {
		if _, err := NewScale(bad[0], bad[1]); !errors.Is(err, ErrParameter) {
			t.Errorf("scale %v: error is %v", bad, err)
		}
	}
	// The smallest possible noise: 10 steps by 0.1 is slightly above 1.
	if _, err := NewGaussianSum(10, 0.1); err != nil {
		t.Error(err)
	}
}

// The variance drawn is never below sigma² and its margin, barely above it, and made of
// numbers that the sampler's products have room for.
func TestSigmaRoundsUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sigma := math.Exp(rapid.Float64Range(0, math.Log(maxSigma)).Draw(t, "log sigma"))
		s, err := NewSigma(min(max(sigma, 1), maxSigma))
		if err != nil {
			t.Fatal(err)
		}
		want := new(big.Rat).SetFloat64(s.Float())
		extra := margin(want)
		want.Mul(want, want).Add(want, extra)
		checkSlightlyAbove(t, s.variance(), want)
		if s.t*s.q >= 1<<30 || s.w >= 1<<31 || s.t*s.q < 1<<29 {
			t.Fatalf("sigma %v: t %d, w %d, q %d", sigma, s.t, s.w, s.q)
		}
	})
	for _, sigma := range []float64{1, maxSigma} {
		mustSigma(t, sigma)
	}
}

func TestScaleRoundsUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		unit := rapid.Uint64Range(1, 1<<32).Draw(t, "unit")
		epsilon := math.Exp(rapid.Float64Range(math.Log(float64(unit)*0x1p-37), 12).Draw(t, "log epsilon"))
		scale, err := scaleFor(unit, epsilon)
		if err != nil {
			t.Fatal(err)
		}
		want := new(big.Rat).SetInt(new(big.Int).SetUint64(unit))
		checkSlightlyAbove(t, scale.rat(), want.Quo(want, new(big.Rat).SetFloat64(epsilon)))
	})
	exact := new(big.Rat).SetFloat64(0.05)
	if testkit.Value(scaleFor(1, 0.05)).rat().Cmp(exact.Inv(exact)) != 0 {
		t.Error("lambda 0.05 has an exact fraction and was rounded")
	}
}

func checkSlightlyAbove(t *rapid.T, got, want *big.Rat) {
	t.Helper()
	if got.Cmp(want) < 0 {
		t.Fatalf("%v is below %v: too little noise", got.FloatString(20), want.FloatString(20))
	}
	limit := new(big.Rat).Mul(want, big.NewRat(10_000_001, 10_000_000))
	if got.Cmp(limit) > 0 {
		t.Fatalf("%v is far above %v", got.FloatString(20), want.FloatString(20))
	}
}
