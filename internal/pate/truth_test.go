package pate

import (
	"fmt"
	"math"
	"testing"

	"gonum.org/v1/gonum/integrate/quad"

	"github.com/conclave-dp/conclave/internal/normal"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// These tests compare the bounds with the truth: probabilities of the winners by
// integration, and the divergence between all neighbouring histograms.

// winners returns the probability of each class to have the largest noisy count,
// for noise with this density and distribution, zero beyond reach.
func winners(votes []int64, density, below func(float64) float64, reach float64) []float64 {
	p := make([]float64, len(votes))
	total := 0.0
	for i := range votes {
		f := func(x float64) float64 {
			y := density(x)
			for j := range votes {
				if j != i {
					y *= below(x + float64(votes[i]-votes[j]))
				}
			}
			return y
		}
		// Laplace densities have corners at differences of counts, which are
		// whole numbers, so that pieces of one unit are smooth.
		for x := -reach; x < reach; x++ {
			p[i] += quad.Fixed(f, x, x+1, 12, nil, 0)
		}
		total += p[i]
	}
	if math.Abs(total-1) > 1e-9 {
		panic(fmt.Sprint("probabilities sum to ", total))
	}
	return p
}

func divergenceOf(p, q []float64, alpha float64) float64 {
	sum := 0.0
	for i := range p {
		sum += math.Pow(p[i], alpha) * math.Pow(q[i], 1-alpha)
	}
	return math.Log(sum) / (alpha - 1)
}

// histograms calls visit with all histograms of so many votes.
func histograms(total int64, classes int, visit func([]int64)) {
	if classes == 1 {
		visit([]int64{total})
		return
	}
	for n := range total + 1 {
		histograms(total-n, classes-1, func(rest []int64) { visit(append([]int64{n}, rest...)) })
	}
}

// neighbours calls visit with all histograms that one moved vote makes of votes.
func neighbours(votes []int64, visit func([]int64)) {
	for i := range votes {
		for j := range votes {
			if i != j && votes[i] > 0 {
				moved := append([]int64{}, votes...)
				moved[i]--
				moved[j]++
				visit(moved)
			}
		}
	}
}

func gaussianWinners(sigma float64) func([]int64) []float64 {
	return func(votes []int64) []float64 {
		return winners(votes,
			func(x float64) float64 { return normal.Density(x/sigma) / sigma },
			func(x float64) float64 { return normal.Tail(-x / sigma) }, math.Ceil(9*sigma))
	}
}

func laplaceWinners(lambda float64) func([]int64) []float64 {
	return func(votes []int64) []float64 {
		return winners(votes,
			func(x float64) float64 { return lambda / 2 * math.Exp(-lambda*math.Abs(x)) },
			func(x float64) float64 {
				if x < 0 {
					return math.Exp(lambda*x) / 2
				}
				return 1 - math.Exp(-lambda*x)/2
			}, math.Ceil(30/lambda))
	}
}

// checkTruth compares q and the divergence to each neighbour with their bounds
// and fails where no histogram is tested beyond the data-independent bound.
func checkTruth(t *testing.T, total int64, classes int, truth func([]int64) []float64,
	logQ func([]int64) float64, bound func([]int64, float64) float64,
	independent func(float64) float64) {
	t.Helper()
	known := make(map[string][]float64)
	of := func(votes []int64) []float64 {
		key := fmt.Sprint(votes)
		if known[key] == nil {
			known[key] = truth(votes)
		}
		return known[key]
	}
	tighter := 0
	histograms(total, classes, func(votes []int64) {
		p := of(votes)
		first := 0
		for i := range votes {
			if votes[i] > votes[first] {
				first = i
			}
		}
		missed := 0.0
		for i := range p {
			if i != first {
				missed += p[i]
			}
		}
		if q := math.Exp(logQ(votes)); missed > q*(1+1e-9)+1e-13 {
			t.Errorf("%v: the largest bin loses with probability %v, the bound says %v", votes, missed, q)
		}
		for _, alpha := range []float64{1.1, 1.5, 2, 3, 4, 6} {
			rho := bound(votes, alpha)
			if rho < independent(alpha)*0.999 {
				tighter++
			}
			neighbours(votes, func(moved []int64) {
				if actual := divergenceOf(p, of(moved), alpha); actual > rho*(1+1e-9)+1e-11 {
					t.Errorf("%v to %v, order %v: divergence %v, the bound says %v", votes, moved, alpha, actual, rho)
				}
			})
		}
	})
	if tighter == 0 {
		t.Error("no histogram tested the data-dependent bound")
	}
}

func TestGNMaxBoundsHold(t *testing.T) {
	for _, c := range []struct {
		total   int64
		classes int
		sigma   float64
	}{{20, 2, 3}, {20, 2, 5}, {60, 2, 9}, {14, 3, 2}, {16, 3, 3}} {
		checkTruth(t, c.total, c.classes, gaussianWinners(c.sigma),
			func(v []int64) float64 { return gnmaxLogQ(v, c.sigma) },
			func(v []int64, alpha float64) float64 { return rdpOfGNMax(v, c.sigma, alpha) },
			func(alpha float64) float64 { return alpha / c.sigma / c.sigma })
	}
}

func TestLNMaxBoundsHold(t *testing.T) {
	for _, c := range []struct {
		total   int64
		classes int
		lambda  float64
	}{{20, 2, .5}, {40, 2, .2}, {12, 3, .6}} {
		checkTruth(t, c.total, c.classes, laplaceWinners(c.lambda),
			func(v []int64) float64 { return lnmaxLogQ(v, c.lambda) },
			func(v []int64, alpha float64) float64 { return rdpOfLNMax(v, c.lambda, alpha) },
			func(alpha float64) float64 { return testkit.Value(lnmaxIndependent(c.lambda, alpha)) })
	}
}

func TestThresholdBoundsHold(t *testing.T) {
	for _, c := range []struct {
		total             int64
		classes           int
		threshold, sigma1 float64
	}{{20, 2, 14, 1.5}, {40, 2, 60, 5}, {15, 3, 6, 2}} {
		truth := func(votes []int64) []float64 {
			z := thresholdDistance(votes, c.threshold, c.sigma1)
			return []float64{normal.Tail(z), normal.Tail(-z)}
		}
		tighter := false
		histograms(c.total, c.classes, func(votes []int64) {
			for _, alpha := range []float64{1.1, 2, 3, 5} {
				rho := rdpOfThreshold(votes, c.threshold, c.sigma1, alpha)
				tighter = tighter || rho < alpha/square(c.sigma1)/2*0.999
				neighbours(votes, func(moved []int64) {
					if actual := divergenceOf(truth(votes), truth(moved), alpha); actual > rho*(1+1e-9)+1e-14 {
						t.Errorf("%v to %v, order %v: divergence %v, the bound says %v", votes, moved, alpha, actual,
							rho)
					}
				})
			}
		})
		if !tighter {
			t.Error("no histogram tested the data-dependent bound")
		}
	}
}

// lnmaxLogQ also bounds the discrete Laplace noise of package gnmax.
func TestLNMaxBoundHoldsForIntegerNoise(t *testing.T) {
	for _, lambda := range []float64{.1, .5, 2} {
		reach := int(40 / lambda)
		weight := func(x int) float64 { return math.Exp(-lambda * math.Abs(float64(x))) }
		norm := 0.0
		for x := -reach; x <= reach; x++ {
			norm += weight(x)
		}
		for gap := range 12 {
			p := 0.0 // that the second bin wins, a tie by lot
			for x := -reach; x <= reach; x++ {
				for y := max(-reach, x+gap); y <= reach; y++ {
					w := weight(x) * weight(y) / norm / norm
					if y == x+gap {
						w /= 2
					}
					p += w
				}
			}
			want := math.Exp(-lambda*float64(gap)) * (1 + float64(gap)*math.Tanh(lambda/2)) / 2
			closeTo(t, "probability to lose", p, want, 1e-9)
			if q := math.Exp(lnmaxLogQ([]int64{int64(50 + gap), 50}, lambda)); p > q*(1+1e-9) {
				t.Errorf("lambda %v: a gap of %d is lost with probability %v, the bound says %v", lambda, gap, p, q)
			}
		}
	}
}
