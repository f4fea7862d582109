package gnmax

import (
	"errors"
	"math"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/conclave-dp/conclave/internal/testkit"
)

// The noise is exactly multiplier times bound: it is never rounded down.
func TestGaussianSumNoiseIsNotRounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bound := rapid.Int64Range(1, 1<<22).Draw(t, "bound")
		multiplier := rapid.Float64Range(1, 100).Draw(t, "multiplier")
		m, err := NewGaussianSum(bound, multiplier)
		if err != nil {
			t.Fatal(err)
		}
		sigma := new(big.Rat).SetFloat64(multiplier)
		sigma.Mul(sigma, new(big.Rat).SetInt64(bound))
		extra := margin(sigma)
		checkSlightlyAbove(t, m.Sigma().variance(), sigma.Mul(sigma, sigma).Add(sigma, extra))
	})
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
