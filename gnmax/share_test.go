package gnmax

import (
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"

	"github.com/conclave-dp/conclave/internal/testkit"
)

// The given number of shares together is never less noise than the whole.
func TestSharesAreEnough(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, err := NewGaussianSum(rapid.Int64Range(1<<8, 1<<20).Draw(t, "bound"),
			rapid.Float64Range(1, 100).Draw(t, "multiplier"))
		if err != nil {
			t.Fatal(err)
		}
		honest := rapid.IntRange(1, 200).Draw(t, "honest")
		share, err := m.Share(honest)
		if err != nil {
			t.Fatal(err)
		}
		all := share.noise.variance()
		checkSlightlyAbove(t, all.Mul(all, new(big.Rat).SetInt64(int64(honest))), m.sigma.variance())
	})
}

func TestSharesBelowEightStepsAreRefused(t *testing.T) {
	m := testkit.Value(NewGaussianSum(16, 1)) // variance 256.125
	for honest, good := range map[int]bool{-1: false, 0: false, 1: true, 4: true, 5: false} {
		if _, err := m.Share(honest); (err == nil) != good {
			t.Errorf("%d parties: %v", honest, err)
		}
	}
	if _, err := (&GaussianSum{}).Share(1); err == nil {
		t.Error("a share of no noise")
	}
	dst := []int64{7}
	if err := (Share{}).Draw(NewSource(), dst); err == nil || dst[0] != 0 {
		t.Errorf("the zero share draws %v: %v", dst, err)
	}
}

// The figures were computed with 60 digits.
func TestShareError(t *testing.T) {
	for _, c := range []struct {
		sigma float64
		n     int
		want  float64
	}{
		{1, 2, 5.172318620381231e-4}, {1, 100, 5.477886990601484e-4}, {2, 100, 7.15717964760944e-17},
		{4, 100, 2.624002960077217e-68}, {8, 100, 4.740861658328165e-274},
	} {
		if got := ShareError(c.sigma, c.n); math.Abs(got/c.want-1) > 1e-11 {
			t.Errorf("sigma %v, n %d: %v, want %v", c.sigma, c.n, got, c.want)
		}
	}
	for _, n := range []int{2, 3, 10, 100, 200} {
		if got := ShareError(minShare, n); got > 1e-270 {
			t.Errorf("n %d at the least share: %v", n, got)
		}
	}
}

// The sum of several parties' shares is distributed like noise of their total variance.
func TestSharesAddUp(t *testing.T) {
	const parties = 3
	m := testkit.Value(NewGaussianSum(20, 1))
	share := testkit.Value(m.Share(parties))
	sums, one := make([]int64, sampleSize), make([]int64, sampleSize)
	for range parties {
		testkit.Must(t, share.Draw(NewSource(), one))
		for i, v := range one {
			sums[i] += v
		}
	}
	v, _ := share.noise.variance().Float64()
	checkNoise(t, sums, gaussianPMF(parties*v, 12*math.Sqrt(parties*v)))
}
