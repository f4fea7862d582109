package audit

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/conclave-dp/conclave/internal/testkit"
)

// By summing up the binomial distribution itself.
func TestClopperPearsonIsExact(t *testing.T) {
	below := func(k, n int, p float64) float64 {
		sum := 0.0
		for i := range k + 1 {
			sum += distuv.Binomial{N: float64(n), P: p}.Prob(float64(i))
		}
		return sum
	}
	for _, n := range []int{1, 7, 100, 750} {
		for _, k := range []int{0, 1, n / 3, n - 1, n} {
			for _, alpha := range []float64{0.1, 0.005, 0.0005} {
				low, high := ClopperPearson(k, n, alpha)
				if k == 0 && low != 0 || k == n && high != 1 {
					t.Errorf("%d of %d: the bounds are %v and %v", k, n, low, high)
				}
				if k > 0 && math.Abs(1-below(k-1, n, low)-alpha) > 1e-6 {
					t.Errorf("%d of %d: under the lower bound %v so many come with %v, want %v",
						k, n, low, 1-below(k-1, n, low), alpha)
				}
				if k < n && math.Abs(below(k, n, high)-alpha) > 1e-6 {
					t.Errorf("%d of %d: under the upper bound %v so few come with %v, want %v",
						k, n, high, below(k, n, high), alpha)
				}
			}
		}
	}
}

// coins makes trials of which each is 1 with its world's probability.
func coins(r *rand.Rand, runs int, p [2]float64) (trials [2][]float64) {
	for world := range trials {
		for range runs {
			x := 0.0
			if r.Float64() < p[world] {
				x = 1
			}
			trials[world] = append(trials[world], x)
		}
	}
	return trials
}

// Randomized response with epsilon 1 is exactly (1, 0)-DP. If it fails openly with probability
// delta, it is (1, delta)-DP. So a bound above 1 is a false alarm here. At confidence 0.9 one
// audit in ten may give one. With probability 1 - 10^-5, 500 audits give fewer than 83.
func TestFalseAlarms(t *testing.T) {
	for _, delta := range []float64{0, 0.1} {
		r := rand.New(rand.NewPCG(1, 2))
		q := (1 - delta) / (1 + math.E)
		alarms, blind := 0, 0
		for range 500 {
			b, err := LowerBound(coins(r, 1000, [2]float64{math.E*q + delta, q}), delta, 0.9)
			testkit.Must(t, err)
			if b.Epsilon > 1 {
				alarms++
			}
			if b.Epsilon < 0.7 {
				blind++
			}
		}
		if alarms > 82 {
			t.Errorf("%d of 500 audits of an exact mechanism found a violation, allowed are 10%%", alarms)
		}
		if delta == 0 && blind > 5 {
			t.Errorf("%d of 500 bounds are below 0.7; a thousand runs show more", blind)
		}
	}
}

// A coin of epsilon 2 where 1 was claimed is found, at the default confidence,
// whichever world and side the event is on.
func TestViolationIsFound(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	high := math.Exp(2) / (1 + math.Exp(2))
	for _, p := range [][2]float64{{high, 1 - high}, {1 - high, high}} {
		for range 50 {
			b, err := LowerBound(coins(r, 1000, p), 0, DefaultOptions().Confidence)
			testkit.Must(t, err)
			if b.Epsilon < 1.3 || b.Epsilon > 2 {
				t.Errorf("coins of %v: the bound is %v", p, b.Epsilon)
			}
			if b.Of != [2]int{750, 750} {
				t.Errorf("decided on %v trials", b.Of)
			}
		}
	}
}

func TestNothingToFind(t *testing.T) {
	same := make([]float64, 100)
	b, err := LowerBound([2][]float64{same, same}, 0.1, 0.999)
	if err != nil || b.Epsilon != 0 {
		t.Errorf("equal worlds give %v, %v", b.Epsilon, err)
	}
	for _, xs := range [][]float64{nil, make([]float64, MinRuns-1), {0, 1, 2, 3, 4, 5, 6, math.NaN()}} {
		if _, err := LowerBound([2][]float64{same, xs}, 0.1, 0.999); err == nil {
			t.Errorf("%d trials with %v were taken", len(xs), xs)
		}
	}
	for _, bad := range [][2]float64{{-0.1, 0.9}, {1, 0.9}, {0, 0}, {0, 1}, {math.NaN(), 0.9}, {0, math.NaN()}} {
		if _, err := LowerBound([2][]float64{same, same}, bad[0], bad[1]); err == nil {
			t.Errorf("delta %v and confidence %v were taken", bad[0], bad[1])
		}
	}
}
