package privacy

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"gonum.org/v1/gonum/integrate/quad"

	"github.com/conclave-dp/conclave/internal/testkit"
)

// All histograms of a few teachers: what the proof says, checked one by one.
func TestSmoothSensitivityHolds(t *testing.T) {
	const beta = .15
	for _, p := range []struct {
		total        int64
		classes      int
		sigma, order float64
	}{{30, 2, 4, 3}, {60, 2, 6, 4}, {24, 3, 3, 2}, {14, 4, 2.5, 2}, {10, 2, 20, 4}} {
		t.Run(fmt.Sprint(p), func(t *testing.T) {
			c, err := newGNMaxCurve(p.sigma, p.order, p.classes)
			if err == nil {
				err = c.check(p.total)
			}
			if err != nil {
				t.Fatal(err)
			}
			histograms(p.total, p.classes, func(votes []int64) {
				logQ := gnmaxLogQ(votes, p.sigma)
				value, smooth, local := c.value(logQ), c.smooth(votes, beta), c.byDistance(votes, p.total)
				if bound := testkit.Value(GNMaxRDP(votes, p.sigma, p.order)); value < bound*(1-1e-12) {
					t.Errorf("%v: the curve is %v, the bound %v", votes, value, bound)
				}
				if smooth < local[0] || !slices.IsSorted(local) {
					t.Errorf("%v: smooth sensitivity %v, local ones %v", votes, smooth, local)
				}
				neighbours(votes, func(moved []int64) {
					next := gnmaxLogQ(moved, p.sigma)
					if next > c.above(logQ)+1e-12 || next < c.below(logQ)-1e-12 {
						t.Errorf("%v to %v: log q goes from %v to %v, beyond [%v, %v]", votes, moved, logQ, next, c.below(logQ), c.above(logQ))
					}
					if change := math.Abs(c.value(next) - value); change > local[0]*(1+1e-9)+1e-15 {
						t.Errorf("%v to %v: the curve changes by %v, the local sensitivity is %v", votes, moved, change, local[0])
					}
					if other := c.smooth(moved, beta); smooth > other*math.Exp(beta)*(1+1e-12) {
						t.Errorf("%v to %v: smooth sensitivity %v beside %v", votes, moved, smooth, other)
					}
					further := c.byDistance(moved, p.total)
					for d := range len(local) - 1 {
						if local[d] > further[d+1]*(1+1e-12) {
							t.Errorf("%v at distance %d: %v, %v at distance %d: %v", votes, d, local[d], moved, d+1, further[d+1])
						}
					}
				})
			})
		})
	}
}

func TestScaledGaussianRDP(t *testing.T) {
	// Integrates p^alpha q^(1-alpha) for p = N(apart s, e^2t), q = N(0, 1).
	integral := func(t, apart, alpha float64) float64 {
		s := math.Exp(t)
		centre := apart * min(1, s)
		logDensity := func(x, centre, s float64) float64 { return -square((x-centre)/s)/2 - math.Log(s*math.Sqrt(2*math.Pi)) }
		f := func(x float64) float64 {
			return math.Exp(alpha*logDensity(x, centre, s) + (1-alpha)*logDensity(x, 0, 1))
		}
		sum := 0.0
		for x := -150.0; x < 150; x++ {
			sum += quad.Fixed(f, x, x+1, 20, nil, 0)
		}
		return math.Log(sum) / (alpha - 1)
	}
	for _, c := range []struct{ beta, noise, alpha float64 }{{.12, 1, 4}, {.02, 3, 20}, {.2, .8, 2}, {.05, 10, 8}, {.3, 2, 1.5}} {
		worst := scaledGaussianRDP(c.beta, 1/c.noise, c.alpha)
		for _, part := range []float64{-1, -.6, -.2, 0, .2, .6, 1} {
			got := scaledGaussianRDP(part*c.beta, 1/c.noise, c.alpha)
			closeTo(t, "divergence", got, integral(part*c.beta, 1/c.noise, c.alpha), 1e-7)
			if got > worst {
				t.Errorf("beta %v, noise %v, order %v: %v at %v beta, %v at beta", c.beta, c.noise, c.alpha, got, part, worst)
			}
		}
		if cost := testkit.Value(SmoothReleaseRDP(c.beta, c.noise, 1, c.alpha)); cost < worst+c.alpha*square(c.beta)/2 {
			t.Errorf("cost %v is below the divergences", cost)
		}
	}
	// Why the formula published with Theorem 23 is not used.
	beta, noise, alpha := .12, 1.0, 4.0
	published := alpha*math.Exp(2*beta)/square(noise) + (alpha*beta-math.Log(1-2*alpha*beta)/2)/(alpha-1)
	if actual := integral(beta, 1/noise, alpha); actual < 1.5*published {
		t.Errorf("divergence %v, the published formula says %v", actual, published)
	}
}

// The cost of a release by the formula of its comment: rounding to a grid moves
// both figures further apart, which counts most where there is much noise.
func TestSmoothReleaseRDPCountsRounding(t *testing.T) {
	for _, c := range []struct{ beta, noise, logStd, alpha float64 }{
		{.12, 1, 1, 4}, {.02, 100, 3, 20}, {.001, 5000, 50, 8}, {1e-6, 1e6, 1e6, 2},
	} {
		r, v := 1/c.noise+1./1024, 1-(c.alpha-1)*(math.Exp(2*c.beta)-1)
		want := c.alpha*r*r/(2*v) - c.beta - math.Log(v)/(2*(c.alpha-1)) + c.alpha*square(c.beta/c.logStd+1./1024)/2
		closeTo(t, fmt.Sprint(c), testkit.Value(SmoothReleaseRDP(c.beta, c.noise, c.logStd, c.alpha)), want, 1e-8)
	}
}

func TestPlanSmoothRelease(t *testing.T) {
	votes := slices.Repeat([][]int64{{180, 20}, {20, 180}, {90, 110}, {200, 0}}, 3)
	const sigma, order, beta, noise, logStd, delta = 40, 4, .05, 8, 1, 1e-5
	plan, err := PlanSmoothRelease(votes, sigma, order, beta, noise, logStd)
	if err != nil {
		t.Fatal(err)
	}
	value, smooth := 0.0, 0.0
	for _, v := range votes {
		value += testkit.Value(GNMaxRDP(v, sigma, order))
		smooth += testkit.Value(GNMaxSmoothSensitivity(v, sigma, order, beta))
	}
	closeTo(t, "value", plan.Value, value, 1e-9)
	closeTo(t, "noise", plan.NoiseStd, noise*smooth, 1e-9)
	closeTo(t, "log of the noise", plan.LogNoiseStd, math.Log(noise*smooth), 1e-9)
	if exponent := math.Log2(plan.GridStep); exponent != math.Round(exponent) || plan.NoiseStd < 1024*plan.GridStep {
		t.Errorf("grid step %v for noise %v", plan.GridStep, plan.NoiseStd)
	}
	// Both noises as low as they may come: the claim still covers the votes.
	const missed = .01
	z := normalTailInverse(math.Log(missed / 2))
	epsilon := testkit.Value(plan.Epsilon(plan.Value-z*plan.NoiseStd, plan.LogNoiseStd-z*logStd, missed, delta))
	cost := testkit.Value(SmoothReleaseRDP(beta, noise, logStd, order))
	covered := max(0, plan.Value+cost+conversion(order, delta))
	if epsilon < covered*(1-1e-12) {
		t.Errorf("epsilon %v, the votes have %v", epsilon, covered)
	}
	if again := testkit.Value(plan.Epsilon(plan.Value, plan.LogNoiseStd, missed, delta)); again < covered {
		t.Errorf("epsilon %v, the votes have %v", again, covered)
	}
	public := SmoothRelease{Order: plan.Order, Beta: plan.Beta, Noise: plan.Noise, LogStd: plan.LogStd}
	closeTo(t, "epsilon from the public fields", testkit.Value(public.Epsilon(.5, -3, missed, delta)),
		testkit.Value(plan.Epsilon(.5, -3, missed, delta)), 0)
}

func TestSmoothReleaseRefuses(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	good := [][]int64{{180, 20}}
	for name, c := range map[string]struct {
		votes                             [][]int64
		sigma, order, beta, noise, logStd float64
	}{
		"no votes":            {nil, 40, 4, .05, 8, 1},
		"other number":        {[][]int64{{180, 20}, {180, 21}}, 40, 4, .05, 8, 1},
		"other classes":       {[][]int64{{180, 20}, {180, 20, 0}}, 40, 4, .05, 8, 1},
		"one class":           {[][]int64{{180}}, 40, 4, .05, 8, 1},
		"too many":            {[][]int64{{1 << 20, 1}}, 40, 4, .05, 8, 1},
		"order too large":     {good, 40, 11, .05, 8, 1},
		"order 1/(2 beta)":    {good, 40, 10, .05, 8, 1},
		"order 1":             {good, 40, 1, .05, 8, 1},
		"order NaN":           {good, 40, nan, .05, 8, 1},
		"beta 0":              {good, 40, 4, 0, 8, 1},
		"beta NaN":            {good, 40, 4, nan, 8, 1},
		"noise 0":             {good, 40, 4, .05, 0, 1},
		"noise infinite":      {good, 40, 4, .05, inf, 1},
		"log std 0":           {good, 40, 4, .05, 8, 0},
		"sigma 0":             {good, 0, 4, .05, 8, 1},
		"sigma NaN":           {good, nan, 4, .05, 8, 1},
		"sigma vast":          {good, 1e200, 4, .05, 8, 1},
		"sigma tiny":          {good, 1e-200, 4, .05, 8, 1},
		"condition C6 is off": {[][]int64{{50, 0, 0, 0, 0, 0, 0, 0, 0, 0}}, 6.33, 16, .03, 8, 1},
	} {
		_, err := PlanSmoothRelease(c.votes, c.sigma, c.order, c.beta, c.noise, c.logStd)
		if field := (*FieldError)(nil); !errors.As(err, &field) {
			t.Errorf("%s: error %v, want a FieldError", name, err)
		}
	}
	plan, err := PlanSmoothRelease(good, 40, 4, .05, 8, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range [][4]float64{{nan, 0, .1, 1e-5}, {1, inf, .1, 1e-5}, {1, 0, 0, 1e-5}, {1, 0, 1, 1e-5}, {1, 0, .1, 0}, {1, 800, .1, 1e-5}} {
		if epsilon, err := plan.Epsilon(c[0], c[1], c[2], c[3]); err == nil {
			t.Errorf("%v: epsilon %v, want an error", c, epsilon)
		}
	}
	if _, err := (SmoothRelease{}).Epsilon(1, 0, .1, 1e-5); err == nil {
		t.Error("an empty plan has an epsilon")
	}
}
