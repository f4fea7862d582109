package nn

import (
	"math"
	"math/rand/v2"
	"testing"
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
			loss: func(g, s []float32) float64 { return Logistic(g, s, true) },
			value: func(s []float64) float64 {
				return meanOf(s, func(v float64) float64 { return math.Log1p(math.Exp(-v)) })
			},
		},
		"logistic generated": {
			loss: func(g, s []float32) float64 { return Logistic(g, s, false) },
			value: func(s []float64) float64 {
				return meanOf(s, func(v float64) float64 { return math.Log1p(math.Exp(v)) })
			},
		},
		"wasserstein real": {
			loss:  func(g, s []float32) float64 { return Wasserstein(g, s, true) },
			value: func(s []float64) float64 { return -meanOf(s, func(v float64) float64 { return v }) },
		},
		"wasserstein generated": {
			loss:  func(g, s []float32) float64 { return Wasserstein(g, s, false) },
			value: func(s []float64) float64 { return meanOf(s, func(v float64) float64 { return v }) },
		},
		"kl critic": {loss: KLWGANCritic, value: logMeanExp},
		"kl generator": {
			loss: KLWGANGenerator,
			value: func(s []float64) float64 {
				return -meanOf(s, func(v float64) float64 { return v * math.Exp(v-logMeanExp(s)) })
			},
			// With the ratios held fixed the gradient is that of this.
			slope: func(s []float64) float64 { return -logMeanExp(s) },
		},
	} {
		for _, n := range []int{1, 2, 7, 64} {
			scores := normals(rng, n)
			for i := range scores {
				scores[i] *= 3
			}
			grad := make([]float32, n)
			wide := widened(scores)
			if got, want := c.loss(grad, scores), c.value(wide); math.Abs(got-want) > 1e-5*(1+math.Abs(want)) {
				t.Errorf("%s of %d: value %v, want %v", name, n, got, want)
			}
			slope := c.slope
			if slope == nil {
				slope = c.value
			}
			want := make([]float64, n)
			for i := range want {
				want[i] = difference(wide, i, func() float64 { return slope(wide) })
			}
			closeTo(t, name, grad, want, 1e-3)
		}
		if v := c.loss(nil, nil); v != 0 {
			t.Errorf("%s of no scores is %v", name, v)
		}
	}
}

// Scores far out neither overflow nor lose their gradient.
func TestLossesOfLargeScores(t *testing.T) {
	grad := make([]float32, 2)
	if v := KLWGANCritic(grad, []float32{1000, 990}); math.Abs(v-(1000-math.Ln2)) > 1e-3 || math.Abs(float64(grad[0])-1) > 1e-3 {
		t.Errorf("kl: %v, gradient %v", v, grad)
	}
	if v := Logistic(grad, []float32{1000, -1000}, true); v != 500 || grad[1] != -0.5 || grad[0] > 0 || grad[0] < -1e-30 {
		t.Errorf("logistic: %v, gradient %v", v, grad)
	}
	if v := KLWGANCritic(grad, []float32{-990, -1000}); math.Abs(v-(-990-math.Ln2)) > 1e-3 || math.Abs(float64(grad[0])-1) > 1e-3 {
		t.Errorf("kl: %v, gradient %v", v, grad)
	}
	if v := KLWGANCritic(grad, []float32{2000, 0}); math.Abs(v-(2000-math.Ln2)) > 1e-3 || grad[0] != 1 || grad[1] != 0 {
		t.Errorf("kl: %v, gradient %v", v, grad)
	}
	nan := float32(math.NaN())
	if v := KLWGANCritic(grad, []float32{1, nan}); !math.IsNaN(v) || grad[0] == grad[0] {
		t.Errorf("kl of NaN: %v, gradient %v", v, grad)
	}
}

func allHeads(t *testing.T) *Heads {
	t.Helper()
	h, err := NewHeads([]Head{{SigmoidHead, 0, 1}, {CategoricalHead, 1, 3}, {BernoulliHead, 4, 2}, {SoftmaxHead, 6, 1}, {GumbelHead, 7, 4}, {SoftmaxHead, 11, 2}}, 13)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestCrossEntropyAgreesWithCentralDifferences(t *testing.T) {
	h, rng := allHeads(t), rand.New(rand.NewPCG(33, 34))
	for _, n := range []int{1, 5} {
		raw, target, grad := normals(rng, 13*n), make([]float32, 13*n), make([]float32, 13*n)
		h.Forward(target, normals(rng, 13*n), n, rng)
		clear(target[1:4]) // an unknown choice
		wide := widened(raw)
		value := func() (sum float64) {
			for i := range n {
				z, y := wide[13*i:13*i+13], target[13*i:13*i+13]
				for _, head := range h.heads {
					var all float64
					for j := head.Offset; j < head.Offset+head.Width; j++ {
						all += math.Exp(z[j])
					}
					for j := head.Offset; j < head.Offset+head.Width; j++ {
						p, y := math.Exp(z[j])/all, float64(y[j])
						if head.Kind == SigmoidHead || head.Kind == BernoulliHead {
							p = 1 / (1 + math.Exp(-z[j]))
							sum -= (1 - y) * math.Log(1-p)
						}
						sum -= y * math.Log(p)
					}
				}
			}
			return sum / float64(n)
		}
		if got, want := h.CrossEntropy(grad, raw, target, n), value(); math.Abs(got-want) > 1e-5*want {
			t.Errorf("%d records: %v, want %v", n, got, want)
		}
		want := make([]float64, len(wide))
		for i := range want {
			want[i] = difference(wide, i, value)
		}
		closeTo(t, "cross entropy", grad, want, 1e-3)
	}
	raw, grad := make([]float32, 13), make([]float32, 13)
	raw[1], raw[2] = 1e4, -1e4
	target := make([]float32, 13)
	target[2] = 1
	if v := h.CrossEntropy(grad, raw, target, 1); !(math.Abs(v-2e4) < 100) || grad[2] != -1 || grad[1] != 1 {
		t.Errorf("outputs far out: %v, gradient %v", v, grad[1:4])
	}
}

// Relaxed draws and shares have the gradients of what was drawn, draws of choices
// that of their expectation (see head_test.go).
func TestSoftHeadsGradients(t *testing.T) {
	h := allHeads(t)
	h.Temperature = 0.7
	rng := rand.New(rand.NewPCG(35, 36))
	raw, loss, x := normals(rng, 13), normals(rng, 13), make([]float32, 13)
	h.Forward(x, raw, 1, rand.New(rand.NewPCG(1, 2)))
	grad := append([]float32(nil), loss...)
	h.Backward(grad, 1)
	for _, c := range []struct {
		lo, hi int
		scale  float64
	}{{6, 7, 1}, {7, 11, 0.7}, {11, 13, 1}} {
		// softmax((z + noise) / scale) with the noise that gave x.
		noise := make([]float64, c.hi)
		for j := c.lo; j < c.hi; j++ {
			noise[j] = c.scale*math.Log(float64(x[j])) - float64(raw[j])
		}
		z := widened(raw)
		value := func() (v float64) {
			var all float64
			for j := c.lo; j < c.hi; j++ {
				all += math.Exp((z[j] + noise[j]) / c.scale)
			}
			for j := c.lo; j < c.hi; j++ {
				v += float64(loss[j]) * math.Exp((z[j]+noise[j])/c.scale) / all
			}
			return v
		}
		var want []float64
		for j := c.lo; j < c.hi; j++ {
			want = append(want, difference(z, j, value))
		}
		closeTo(t, "head", grad[c.lo:c.hi], want, 1e-3)
	}
}

// A relaxed draw's largest share is the choice with the softmax probability. It
// fails falsely with a chance below 1e-6.
func TestGumbelHeadDrawsWithItsProbabilities(t *testing.T) {
	h, err := NewHeads([]Head{{GumbelHead, 0, 3}}, 3)
	if err != nil {
		t.Fatal(err)
	}
	h.Temperature = 0.3
	const n = 20000
	raw, x := make([]float32, 3*n), make([]float32, 3*n)
	for i := range n {
		copy(raw[3*i:], []float32{0, 1, 2})
	}
	h.Forward(x, raw, n, rand.New(rand.NewPCG(3, 4)))
	var share [3]float64
	for i := range n {
		row, best := x[3*i:3*i+3], 0
		for j, v := range row {
			if v > row[best] {
				best = j
			}
		}
		if sum := row[0] + row[1] + row[2]; math.Abs(float64(sum)-1) > 1e-5 {
			t.Fatalf("draw %v", row)
		}
		share[best] += 1.0 / n
	}
	z := 1 + math.E + math.E*math.E
	for j, want := range []float64{1 / z, math.E / z, math.E * math.E / z} {
		if math.Abs(share[j]-want) > 5*0.5/math.Sqrt(n) || math.Abs(float64(h.Mean()[j])-want) > 1e-5 {
			t.Errorf("choice %d: share %v, mean %v, want %v", j, share[j], h.Mean()[j], want)
		}
	}
}

func TestNewHeadsRefusesUnknownKinds(t *testing.T) {
	if _, err := NewHeads([]Head{{HeadKind(9), 0, 1}}, 1); err == nil {
		t.Error("accepted")
	}
}
