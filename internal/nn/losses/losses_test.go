package losses_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/conclave-dp/conclave/internal/nn/losses"
	"github.com/conclave-dp/conclave/internal/nn/nntest"
)

func meanOf(x []float64, f func(float64) float64) (sum float64) {
	for _, v := range x {
		sum += f(v) / float64(len(x))
	}
	return sum
}

// Values and gradients of the critics' losses against float64.
func TestLossesAgreeWithCentralDifferences(t *testing.T) {
	rng := rand.New(rand.NewPCG(31, 32))
	logMeanExp := func(s []float64) float64 { return math.Log(meanOf(s, math.Exp)) }
	for name, c := range map[string]struct {
		loss  func(grad, scores []float32) float64
		value func(s []float64) float64
		slope func(s []float64) float64 // whose gradient it is, nil for value's
	}{
		"logistic real": {
			loss: func(g, s []float32) float64 { return losses.Logistic(g, s, true) },
			value: func(s []float64) float64 {
				return meanOf(s, func(v float64) float64 { return math.Log1p(math.Exp(-v)) })
			},
		},
		"logistic generated": {
			loss: func(g, s []float32) float64 { return losses.Logistic(g, s, false) },
			value: func(s []float64) float64 {
				return meanOf(s, func(v float64) float64 { return math.Log1p(math.Exp(v)) })
			},
		},
		"wasserstein real": {
			loss:  func(g, s []float32) float64 { return losses.Wasserstein(g, s, true) },
			value: func(s []float64) float64 { return -meanOf(s, func(v float64) float64 { return v }) },
		},
		"wasserstein generated": {
			loss:  func(g, s []float32) float64 { return losses.Wasserstein(g, s, false) },
			value: func(s []float64) float64 { return meanOf(s, func(v float64) float64 { return v }) },
		},
		"kl critic": {loss: losses.KLWGANCritic, value: logMeanExp},
		"kl generator": {
			loss: losses.KLWGANGenerator,
			value: func(s []float64) float64 {
				return -meanOf(s, func(v float64) float64 { return v * math.Exp(v-logMeanExp(s)) })
			},
			// With the ratios held fixed the gradient is that of this.
			slope: func(s []float64) float64 { return -logMeanExp(s) },
		},
	} {
		for _, n := range []int{1, 2, 7, 64} {
			scores := nntest.Normals(rng, n)
			for i := range scores {
				scores[i] *= 3
			}
			grad := make([]float32, n)
			wide := nntest.Widened(scores)
			if got, want := c.loss(grad, scores), c.value(wide); math.Abs(got-want) > 1e-5*(1+math.Abs(want)) {
				t.Errorf("%s of %d: value %v, want %v", name, n, got, want)
			}
			slope := c.slope
			if slope == nil {
				slope = c.value
			}
			want := make([]float64, n)
			for i := range want {
				want[i] = nntest.Difference(wide, i, func() float64 { return slope(wide) })
			}
			nntest.Close(t, name, grad, want, 1e-3)
		}
		if v := c.loss(nil, nil); v != 0 {
			t.Errorf("%s of no scores is %v", name, v)
		}
	}
}

// Scores far out neither overflow nor lose their gradient.
func TestLossesOfLargeScores(t *testing.T) {
	grad := make([]float32, 2)
	if v := losses.KLWGANCritic(grad, []float32{1000, 990}); math.Abs(v-(1000-math.Ln2)) > 1e-3 ||
		math.Abs(float64(grad[0])-1) > 1e-3 {
		t.Errorf("kl: %v, gradient %v", v, grad)
	}
	if v := losses.Logistic(grad, []float32{1000, -1000}, true); v != 500 || grad[1] != -0.5 || grad[0] > 0 ||
		grad[0] < -1e-30 {
		t.Errorf("logistic: %v, gradient %v", v, grad)
	}
	if v := losses.KLWGANCritic(grad, []float32{-990, -1000}); math.Abs(v-(-990-math.Ln2)) > 1e-3 ||
		math.Abs(float64(grad[0])-1) > 1e-3 {
		t.Errorf("kl: %v, gradient %v", v, grad)
	}
	if v := losses.KLWGANCritic(grad, []float32{2000, 0}); math.Abs(v-(2000-math.Ln2)) > 1e-3 || grad[0] != 1 ||
		grad[1] != 0 {
		t.Errorf("kl: %v, gradient %v", v, grad)
	}
	nan := float32(math.NaN())
	if v := losses.KLWGANCritic(grad, []float32{1, nan}); !math.IsNaN(v) || grad[0] == grad[0] {
		t.Errorf("kl of NaN: %v, gradient %v", v, grad)
	}
}
