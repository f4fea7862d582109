package gnmax

import (
	"fmt"
	"math"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"
)

// falseFailure is the probability with which one statistical test of this
// package fails although the sampler is right. There are about 30 of them, so
// that a whole run fails by chance once in about 30 million times.
const falseFailure = 1e-9

// chiSquare tests a sample of integers against their exact log mass (up to a
// constant). Neighbouring integers share a bin until 50 of the sample are
// expected in it; all integers beyond `reach` on either side share the last
// bins. Reach must hold all but a negligible share of the mass.
func chiSquare(t *testing.T, sample []int64, reach int64, logMass func(x float64) float64) {
	t.Helper()
	total := 0.0
	for x := -reach; x <= reach; x++ {
		total += math.Exp(logMass(float64(x)))
	}
	counts := make(map[int64]float64)
	for _, x := range sample {
		counts[max(-reach, min(reach, x))]++
	}
	var statistic, expected, seen, bins float64
	var lastExpected, lastSeen float64
	for x := -reach; x <= reach; x++ {
		expected += float64(len(sample)) * math.Exp(logMass(float64(x))) / total
		seen += counts[x]
		if expected < 50 {
			continue
		}
		statistic += (seen - expected) * (seen - expected) / expected
		lastExpected, lastSeen = expected, seen
		expected, seen = 0, 0
		bins++
	}
	// What is left joins the last bin.
	statistic -= (lastSeen - lastExpected) * (lastSeen - lastExpected) / lastExpected
	statistic += (lastSeen + seen - lastExpected - expected) * (lastSeen + seen - lastExpected - expected) / (lastExpected + expected)
	if bins < 3 {
		t.Fatalf("only %v bins: too small a sample", bins)
	}
	limit := distuv.ChiSquared{K: bins - 1}.Quantile(1 - falseFailure)
	if !(statistic < limit) {
		t.Errorf("chi-square is %.1f with %v bins; above %.1f with probability %g only", statistic, bins, limit, falseFailure)
	}
}

func draw(t *testing.T, n int, sample func() (int64, error)) []int64 {
	t.Helper()
	xs := make([]int64, n)
	for i := range xs {
		x, err := sample()
		if err != nil {
			t.Fatal(err)
		}
		xs[i] = x
	}
	return xs
}

func mustSigma(t testing.TB, sigma float64) Sigma {
	t.Helper()
	s, err := NewSigma(sigma)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func variance(s Sigma) float64 {
	v, _ := s.Variance().Float64()
	return v
}

func TestDiscreteGaussianMass(t *testing.T) {
	src := NewSource()
	for _, sigma := range []float64{1, 1.3, 2.5, 7.77, 40, 100, 5000} {
		t.Run(fmt.Sprint(sigma), func(t *testing.T) {
			s := mustSigma(t, sigma)
			v := variance(s)
			xs := draw(t, 100_000, func() (int64, error) { return src.DiscreteGaussian(s) })
			chiSquare(t, xs, int64(12*sigma)+12, func(x float64) float64 { return -x * x / (2 * v) })

			// Mean and variance: sums of 10^5 draws are normal enough at 6.1
			// standard errors, which is falseFailure.
			var sum, squares float64
			for _, x := range xs {
				sum += float64(x)
				squares += float64(x) * float64(x)
			}
			n := float64(len(xs))
			if e := math.Sqrt(v / n); math.Abs(sum/n) > 6.1*e {
				t.Errorf("mean is %v, %v standard errors from 0", sum/n, sum/n/e)
			}
			if e := v * math.Sqrt(2/n); math.Abs(squares/n-v) > 6.5*e {
				t.Errorf("variance is %v, want %v within %v", squares/n, v, 6.5*e)
			}
		})
	}
}

func TestDiscreteLaplaceMass(t *testing.T) {
	src := NewSource()
	for _, c := range []struct{ num, den uint64 }{{1, 2}, {1, 1}, {7, 3}, {20, 1}, {1000, 7}, {1 << 62, 1<<62/300 + 1}} {
		t.Run(fmt.Sprintf("%d over %d", c.num, c.den), func(t *testing.T) {
			scale, err := NewScale(c.num, c.den)
			if err != nil {
				t.Fatal(err)
			}
			width := float64(c.num) / float64(c.den)
			xs := draw(t, 100_000, func() (int64, error) { return src.DiscreteLaplace(scale) })
			chiSquare(t, xs, int64(40*width)+20, func(x float64) float64 { return -math.Abs(x) / width })
		})
	}
}

// The building block, against its definition.
func TestBernoulliExp(t *testing.T) {
	src := NewSource()
	const n = 100_000
	for _, c := range []struct{ lo, denominator uint64 }{{0, 7}, {1, 1000}, {1, 2}, {6, 7}, {1, 1}, {9, 4}, {5, 1}, {1 << 61, 1 << 62}} {
		p := math.Exp(-float64(c.lo) / float64(c.denominator))
		hits := 0.0
		for range n {
			x, err := src.draw(func(d *draws) int64 {
				if d.bernoulliExp(0, c.lo, c.denominator) {
					return 1
				}
				return 0
			})
			if err != nil {
				t.Fatal(err)
			}
			hits += float64(x)
		}
		if e := math.Sqrt(p * (1 - p) * n); math.Abs(hits-n*p) > 6.5*e {
			t.Errorf("exp(-%d/%d): %v of %d, want %v within %v", c.lo, c.denominator, hits, n, n*p, 6.5*e)
		}
	}
}

func TestUniform(t *testing.T) {
	src := NewSource()
	for _, n := range []uint64{3, 10, 1000} {
		xs := draw(t, 100_000, func() (int64, error) {
			return src.draw(func(d *draws) int64 { return int64(d.uniform(n)) })
		})
		bins := make([]float64, n)
		for _, x := range xs {
			bins[x]++
		}
		want, statistic := float64(len(xs))/float64(n), 0.0
		for _, b := range bins {
			statistic += (b - want) * (b - want) / want
		}
		if limit := (distuv.ChiSquared{K: float64(n) - 1}).Quantile(1 - falseFailure); statistic > limit {
			t.Errorf("below %d: chi-square is %v, above %v", n, statistic, limit)
		}
	}
	// Where the range does not divide 2^64, some words must be drawn again: of
	// 2^63+1 numbers the word 0 would stand for one twice as often.
	d := draws{reader: NewSourceFrom(constant(0)).draws.reader}
	if d.uniform(1<<63 + 1); d.err == nil {
		t.Error("a word from the uneven rest was used")
	}
}
