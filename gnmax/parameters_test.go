package gnmax

import (
	"errors"
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"

	"github.com/conclave-dp/conclave/internal/testkit"
)

func TestParametersAreRefused(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, bad := range []float64{0, -1, nan, inf, -inf, 0.999, 1e10} {
		if _, err := NewSigma(bad); !errors.Is(err, ErrParameter) {
			t.Errorf("sigma %v: error is %v", bad, err)
		}
		if _, err := NewGNMax(bad, false); !errors.Is(err, ErrParameter) {
			t.Errorf("gnmax with sigma %v: error is %v", bad, err)
		}
		if _, err := NewConfident(10, bad, 5, false); !errors.Is(err, ErrParameter) {
			t.Errorf("confident with sigma1 %v: error is %v", bad, err)
		}
		if _, err := NewConfident(10, 5, bad, false); !errors.Is(err, ErrParameter) {
			t.Errorf("confident with sigma2 %v: error is %v", bad, err)
		}
	}
	for _, bad := range []float64{0, -1, nan, inf, -inf, 1e-12, 5e-324, 1e300} {
		if _, err := NewLNMax(bad, false); !errors.Is(err, ErrParameter) {
			t.Errorf("lnmax with lambda %v: error is %v", bad, err)
		}
		if _, err := LaplaceCounts(NewSource(), []int64{1}, 1, bad); !errors.Is(err, ErrParameter) {
			t.Errorf("counts with epsilon %v: error is %v", bad, err)
		}
	}
	for _, bad := range []float64{-1, nan, inf, 1e300} {
		if _, err := NewConfident(bad, 5, 5, false); !errors.Is(err, ErrParameter) {
			t.Errorf("threshold %v: error is %v", bad, err)
		}
	}
	for _, bad := range [][2]uint64{{0, 1}, {1, 0}, {0, 0}, {1<<38 + 1, 1}, {math.MaxUint64, 1 << 20}} {
		if _, err := NewScale(bad[0], bad[1]); !errors.Is(err, ErrParameter) {
			t.Errorf("scale %v: error is %v", bad, err)
		}
	}
	for _, unit := range []int64{0, -1} {
		if _, err := LaplaceCounts(NewSource(), []int64{1}, unit, 1); !errors.Is(err, ErrParameter) {
			t.Errorf("unit %d: error is %v", unit, err)
		}
	}
}

func TestSumParametersAreRefused(t *testing.T) {
	for _, bad := range []float64{0, -1, math.NaN(), math.Inf(1), math.Inf(-1), 0.0999, 5e-324, 1e9} {
		if m, err := NewGaussianSum(10, bad); !errors.Is(err, ErrParameter) || m != nil {
			t.Errorf("multiplier %v: error is %v", bad, err)
		}
	}
	for _, bad := range []int64{0, -1, math.MinInt64, math.MaxInt64, maxSigma + 1} {
		if m, err := NewGaussianSum(bad, 1); !errors.Is(err, ErrParameter) || m != nil {
			t.Errorf("bound %d: error is %v", bad, err)
		}
		if _, err := NewFixedPoint(1, max(bad, maxBound+1)); !errors.Is(err, ErrParameter) {
			t.Errorf("fixed point with bound %d: error is %v", max(bad, maxBound+1), err)
		}
	}
	for _, bad := range []float64{0, -1, math.NaN(), math.Inf(1), math.Inf(-1), 5e-324} {
		if _, err := NewFixedPoint(bad, 1<<20); !errors.Is(err, ErrParameter) {
			t.Errorf("clip norm %v: error is %v", bad, err)
		}
	}
	for _, bad := range []int64{0, -1} {
		if _, err := NewFixedPoint(1, bad); !errors.Is(err, ErrParameter) {
			t.Errorf("fixed point with bound %d: error is %v", bad, err)
		}
	}
	// The smallest noise there is: 10 steps by 0.1 is 1 and a bit.
	if _, err := NewGaussianSum(10, 0.1); err != nil {
		t.Error(err)
	}
}

func TestSelectionParametersAreRefused(t *testing.T) {
	for _, bad := range []float64{0, -1, math.NaN(), math.Inf(1), math.Inf(-1), 1e-12, 5e-324, 1e300} {
		if m, err := NewExponential(bad, 1); !errors.Is(err, ErrParameter) || m != nil {
			t.Errorf("epsilon %v: error is %v", bad, err)
		}
	}
	for _, bad := range []int64{0, -1, math.MinInt64, math.MaxInt64, maxCount} {
		if m, err := NewExponential(1, bad); !errors.Is(err, ErrParameter) || m != nil {
			t.Errorf("sensitivity %d: error is %v", bad, err)
		}
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
