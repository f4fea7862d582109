package gnmax

import (
	"errors"
	"math"
	"math/big"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/testkit"
)

func TestGaussianSumHasItsNoise(t *testing.T) {
	src := NewSource()
	m := testkit.Value(NewGaussianSum(1<<10, 1.5))
	sum := []int64{0, -70_000, 1 << 60}
	noise := make([][]int64, len(sum))
	product := 0.0
	const n = 50_000
	for range n {
		noisy, err := m.Release(src, sum)
		testkit.Must(t, err)
		for i := range sum {
			noise[i] = append(noise[i], noisy[i]-sum[i])
		}
		product += float64(noisy[0]-sum[0]) * float64(noisy[1]-sum[1])
	}
	testkit.Same(t, "the sum was changed", []int64{0, -70_000, 1 << 60}, sum)
	v := variance(m.Sigma())
	for _, xs := range noise {
		checkNoise(t, xs, gaussianPMF(v, 12*math.Sqrt(v)))
	}
	checkMean(t, "covariance of two entries", product/n, 0, v*v, n)
}

// The noise is multiplier times bound, as fractions: never rounded down.
func TestGaussianSumNoiseIsNotRounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bound := rapid.Int64Range(1, 1<<22).Draw(t, "bound")
		m, err := NewGaussianSum(bound, rapid.Float64Range(1, 100).Draw(t, "multiplier"))
		if err != nil {
			t.Fatal(err)
		}
		sigma := new(big.Rat).SetFloat64(m.multiplier)
		sigma.Mul(sigma, new(big.Rat).SetInt64(bound))
		extra := margin(sigma)
		checkSlightlyAbove(t, m.Sigma().Variance(), sigma.Mul(sigma, sigma).Add(sigma, extra))
	})
}

func TestGaussianSumCost(t *testing.T) {
	m := testkit.Value(NewGaussianSum(1<<20, 2.5))
	cost := m.Cost(3)
	if diff := cmp.Diff([]privacy.Event{{Kind: privacy.Gaussian, Sigma: 2.5, Sensitivity: 1, Count: 3}},
		cost); diff != "" {
		t.Error(diff)
	}
	if _, err := privacy.Account(cost, 1e-5); err != nil {
		t.Error(err)
	}
	if m.Cost(0) != nil || m.Kind() != privacy.Gaussian || m.Bound() != 1<<20 {
		t.Errorf("nothing costs %v, kind is %s, bound is %d", m.Cost(0), m.Kind(), m.Bound())
	}
}

func TestSumsAreRefused(t *testing.T) {
	src := NewSource()
	m := testkit.Value(NewGaussianSum(7, 1))
	for _, sum := range [][]int64{nil, {}, {7, maxCount + 1}, {math.MinInt64}} {
		noisy, err := m.Release(src, sum)
		if !errors.Is(err, ErrSum) || noisy != nil {
			t.Errorf("%v: %v, %v", sum, noisy, err)
		} else if strings.Contains(err.Error(), "7") {
			t.Errorf("the error %q shows a value", err)
		}
	}
	if noisy, err := (&GaussianSum{}).Release(src, []int64{1}); !errors.Is(err, ErrParameter) || noisy != nil {
		t.Errorf("the zero mechanism: %v, %v", noisy, err)
	}
	if noisy, err := m.Release(NewSourceFrom(constant(0)), []int64{1}); err == nil || noisy != nil {
		t.Errorf("from a broken source: %v, %v", noisy, err)
	}
}
