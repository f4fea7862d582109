package gnmax

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"

	"github.com/conclave-dp/conclave/internal/testkit"
)

func draw(t *testing.T, n int, sample func() (int64, error)) []int64 {
	t.Helper()
	xs := make([]int64, n)
	for i := range xs {
		x, err := sample()
		testkit.Must(t, err)
		xs[i] = x
	}
	return xs
}

func mustSigma(t testing.TB, sigma float64) Sigma {
	t.Helper()
	s, err := NewSigma(sigma)
	testkit.Must(t, err)
	return s
}

func variance(s Sigma) float64 {
	v, _ := s.variance().Float64()
	return v
}

// Against the exact mass function: all of it by chi-square, then mean, variance,
// the tails on both sides, symmetry, and independence of one draw from the next.
func checkNoise(t *testing.T, xs []int64, exact pmf) {
	t.Helper()
	chiSquareOf(t, xs, exact)
	n := len(xs)
	second, fourth := exact.moment(2), exact.moment(4)
	var sum, squares, products, positive, nonzero float64
	for i, x := range xs {
		x := float64(x)
		sum += x
		squares += x * x
		products += x * float64(xs[(i+1)%n])
		if x != 0 {
			nonzero++
		}
		if x > 0 {
			positive++
		}
	}
	checkMean(t, "mean", sum/float64(n), 0, second, n)
	checkMean(t, "variance", squares/float64(n), second, fourth-second*second, n)
	checkMean(t, "covariance of neighbours", products/float64(n), 0, second*second, n)
	checkMean(t, "share of positive numbers", positive/nonzero, 0.5, 0.25, int(nonzero))

	// The tail of which about 2000 are expected.
	for _, sign := range []int64{-1, 1} {
		tail, from := 0.0, exact.from+len(exact.mass)
		for total := exact.total(); tail*float64(n) < 2000; from-- {
			tail += exact.at(from-1) / total
		}
		beyond := 0.0
		for _, x := range xs {
			if sign*x >= int64(from) {
				beyond++
			}
		}
		checkMean(t, fmt.Sprintf("share beyond %d", sign*int64(from)), beyond/float64(n), tail, tail*(1-tail), n)
	}
}

// sampleSize is the number of draws per comparison with a distribution.
const sampleSize = 300_000

// Sigmas below privacy.MinSigma are refused because of the charge, not because of the sampler: the sampler is correct
// for them.
func TestDiscreteGaussianMass(t *testing.T) {
	if testing.Short() {
		t.Skip("one thread of arithmetic, and slow with a race detector")
	}
	src := NewSource()
	for _, sigma := range []float64{0.3, 0.7, 1, 3, 29.9, 100, 1000, 1025, 5000} {
		t.Run(fmt.Sprint(sigma), func(t *testing.T) {
			r := new(big.Rat).SetFloat64(sigma)
			s := sigmaOfVariance(r.Mul(r, r))
			xs := make([]int64, sampleSize)
			testkit.Must(t, src.DiscreteGaussians(xs, s))
			checkNoise(t, xs, gaussianPMF(variance(s), 12*math.Sqrt(variance(s))+3))
		})
	}
}

func TestDiscreteLaplaceMass(t *testing.T) {
	if testing.Short() {
		t.Skip("one thread of arithmetic, and slow with a race detector")
	}
	src := NewSource()
	for _, c := range []struct{ num, den uint64 }{{1, 2}, {1, 1}, {7, 3}, {20, 1}, {1000, 7},
		{1 << 62, 1<<62/300 + 1}} {
		t.Run(fmt.Sprintf("%d over %d", c.num, c.den), func(t *testing.T) {
			scale, err := NewScale(c.num, c.den)
			testkit.Must(t, err)
			xs := make([]int64, sampleSize)
			testkit.Must(t, src.DiscreteLaplaces(xs, scale))
			checkNoise(t, xs, laplacePMF(float64(c.num)/float64(c.den)))
		})
	}
}

// The proposal's own distribution and the exponent together give y²/(2 v) and a constant. The test uses fractions, far
// more exact than any sample.
func TestGaussianExponentIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, err := NewSigma(math.Exp(rapid.Float64Range(0, math.Log(maxSigma)-1e-9).Draw(t, "log sigma")))
		if err != nil {
			t.Fatal(err)
		}
		weight := func(y int64) *big.Rat {
			hi, lo, denominator := s.exponent(y)
			n := new(big.Int).SetUint64(hi)
			n.Lsh(n, 64).Or(n, new(big.Int).SetUint64(lo))
			w := new(big.Rat).SetFrac(n, new(big.Int).SetUint64(denominator))
			return w.Add(w, big.NewRat(max(y, -y), int64(s.t)))
		}
		reach := int64(s.t) << 12
		y := rapid.Int64Range(-reach, reach).Draw(t, "y")
		want := new(big.Rat).SetFrac(new(big.Int).Mul(big.NewInt(y), big.NewInt(y)), big.NewInt(2))
		want.Quo(want, s.variance())
		if got := new(big.Rat).Sub(weight(y), weight(0)); got.Cmp(want) != 0 {
			t.Fatalf("sigma %v, y %d: the exponents add up to %v, want %v", s.Float(), y, got, want)
		}
	})
}

// Single draws and slices give the same numbers.
func TestSlicesAreDraws(t *testing.T) {
	one, many := NewSourceFrom(&chain{}), NewSourceFrom(&chain{})
	s, scale := mustSigma(t, 7), testkit.Value(NewScale(7, 3))
	gaussians, laplaces := make([]int64, 50), make([]int64, 50)
	testkit.Must(t, errors.Join(many.DiscreteGaussians(gaussians, s), many.DiscreteLaplaces(laplaces, scale)))
	testkit.Same(t, "", gaussians, draw(t, 50, func() (int64, error) { return one.DiscreteGaussian(s) }))
	again := make([]int64, 1)
	testkit.Same(t, "", laplaces, draw(t, 50, func() (int64, error) {
		err := one.DiscreteLaplaces(again, scale)
		return again[0], err
	}))
}
