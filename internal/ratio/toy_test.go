package ratio_test

import (
	"context"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/conclave-dp/conclave/gnmax"
	"github.com/conclave-dp/conclave/internal/ratio"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// toy is the example of Ghalebikesabi et al. 2022: synthetic records uniform on the unit
// square, real ones uniform on the triangle below its diagonal.
type toy struct {
	width     int
	synthetic []float64 // places, shape [m, 2]
	x         []float64 // their features
	problem   ratio.Problem
	lattice   ratio.Lattice
	steps     []int64 // the coefficients without noise
	l2        float64
}

func newToy(t *testing.T) toy {
	t.Helper()
	const m, n = 1000, 2000
	r := rand.New(rand.NewPCG(9, 10))
	deviation := float32(math.Sqrt(1.0 / 12)) // of a number that is uniform
	f := testkit.Value(ratio.New(ratio.Spec{Mean: []float32{0.5, 0.5}, Scale: []float32{deviation, deviation},
		Classes: 1, Clip: 2}))
	c := toy{width: f.Width()}
	vector := func(a, b float64) []float64 {
		v := make([]float64, c.width)
		f.At(v, []float32{float32(a), float32(b)}, 0)
		return v
	}
	for range m {
		a, b := r.Float64(), r.Float64()
		c.synthetic = append(c.synthetic, a, b)
		c.x = append(c.x, vector(a, b)...)
	}
	sum := ratio.Steps{Width: c.width, Clip: f.Clip(), Bound: 1 << 30}
	var real [][]float64
	for range n {
		a, b := r.Float64(), r.Float64()
		real = append(real, vector(max(a, b), min(a, b)))
	}
	c.problem = ratio.Problem{Synthetic: c.x, Width: c.width, Clip: f.Clip(), Lambda: 0.1, Records: n,
		Rounding: sum.Rounding()}
	fitted, err := ratio.Fit(t.Context(), c.problem, func(_ context.Context, beta []float64) (ratio.Sums, error) {
		pass := testkit.Value(ratio.NewPass(sum, beta))
		for _, unit := range real {
			if err := pass.Add(unit); err != nil {
				return ratio.Sums{}, err
			}
		}
		return sum.Decode(pass.Sums())
	})
	testkit.Must(t, err)
	c.l2 = testkit.Value(c.problem.Sensitivity())
	c.lattice = testkit.Value(ratio.LatticeFor(c.l2, c.width))
	c.steps = c.lattice.Round(fitted)
	return c
}

// mean is the estimate of the real records' mean of a + 2 b, a number fixed before any
// noise was drawn: (1/m) sum w(x) (a + 2 b).
func (c toy) mean(weights []float64) float64 {
	sum := 0.0
	for i, w := range weights {
		sum += w * (c.synthetic[2*i] + 2*c.synthetic[2*i+1])
	}
	return sum / float64(len(weights))
}

// Over 1,000 draws of exact noise the debiased weights' estimate is that of weights
// without noise within 3 standard errors, and that of merely noised weights is not.
//
// The draws are the same in every run. With others a mean of right weights is outside of 3
// standard errors in 0.5% of all cases (5 of 1,025), and noised weights are 8 to 10 standard
// errors off on average, never below 4.7.
func TestDebiasedWeightsAreUnbiased(t *testing.T) {
	c := newToy(t)
	l2, l1 := testkit.Value(c.lattice.Sensitivity(c.l2, c.width)), testkit.Value(c.lattice.L1Sensitivity(c.l2, c.width))
	var src *gnmax.Source // each kind's own: their order differs from run to run
	float := func(r *big.Rat) float64 { f, _ := r.Float64(); return f }
	const epsilon, epsilonRadial, multiplier = 0.1, 0.065, 30
	radial := testkit.Value(gnmax.NewNormGamma(epsilonRadial, l2, c.width))
	gaussian := testkit.Value(gnmax.NewGaussianSum(l2, multiplier))
	for name, kind := range map[string]struct {
		noise ratio.Noise
		draw  func() ([]int64, error)
	}{
		"laplace": {
			ratio.Noise{Kind: ratio.Laplace, Scale: float64(l1) / epsilon * c.lattice.Step()},
			func() ([]int64, error) { return gnmax.LaplaceCounts(src, c.steps, l1, epsilon) },
		},
		"norm-gamma": {
			ratio.Noise{Kind: ratio.NormGamma, Scale: float(radial.Scale()) * c.lattice.Step()},
			func() ([]int64, error) { return radial.Release(src, c.steps) },
		},
		"gaussian": {
			ratio.Noise{Kind: ratio.Gaussian, Scale: gaussian.Sigma().Float() * c.lattice.Step()},
			func() ([]int64, error) { return gaussian.Release(src, c.steps) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			src = gnmax.NewSourceFrom(rand.NewChaCha8([32]byte{1}))
			testkit.Must(t, kind.noise.Check(c.x, c.width))
			target := c.mean(testkit.Value(ratio.Weights(c.lattice.Values(c.steps), c.x, ratio.Noise{})))
			var debiased, noised []float64
			for range 1000 {
				steps, err := kind.draw()
				testkit.Must(t, err)
				beta := c.lattice.Values(steps)
				debiased = append(debiased, c.mean(testkit.Value(ratio.Weights(beta, c.x, kind.noise))))
				noised = append(noised, c.mean(testkit.Value(ratio.Weights(beta, c.x, ratio.Noise{}))))
			}
			right, wrong := deviation(debiased, target), deviation(noised, target)
			t.Logf("scale %.3f, target %.4f: debiased off by %.2f standard errors, noised by %.2f",
				kind.noise.Scale, target, right, wrong)
			if math.Abs(right) > 3 || math.Abs(wrong) <= 3 {
				t.Errorf("debiased weights are off by %.2f standard errors, noised ones by %.2f", right, wrong)
			}
		})
	}
}

// deviation is the distance of the mean from the target, in standard errors.
func deviation(values []float64, target float64) float64 {
	n, sum, squares := float64(len(values)), 0.0, 0.0
	for _, v := range values {
		sum += v
	}
	for _, v := range values {
		squares += (v - sum/n) * (v - sum/n)
	}
	return (sum/n - target) / math.Sqrt(squares/(n-1)/n)
}
