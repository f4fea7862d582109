package output

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/conclave-dp/conclave/internal/nn/nntest"
	"github.com/conclave-dp/conclave/internal/testkit"
)

func TestCrossEntropyAgreesWithCentralDifferences(t *testing.T) {
	h, rng := allHeads(t), rand.New(rand.NewPCG(33, 34))
	for _, n := range []int{1, 5} {
		raw, target, grad := nntest.Normals(rng, 13*n), make([]float32, 13*n), make([]float32, 13*n)
		h.Forward(target, nntest.Normals(rng, 13*n), n, rng)
		clear(target[1:4]) // an unknown choice
		wide := nntest.Widened(raw)
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
			want[i] = nntest.Difference(wide, i, value)
		}
		nntest.Close(t, "cross entropy", grad, want, 1e-3)
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
	raw, loss, x := nntest.Normals(rng, 13), nntest.Normals(rng, 13), make([]float32, 13)
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
		z := nntest.Widened(raw)
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
			want = append(want, nntest.Difference(z, j, value))
		}
		nntest.Close(t, "head", grad[c.lo:c.hi], want, 1e-3)
	}
}

// A relaxed draw's largest share is the choice with the softmax probability. It
// fails falsely with a chance below 1e-6.
func TestGumbelHeadDrawsWithItsProbabilities(t *testing.T) {
	h, err := NewHeads([]Head{{GumbelHead, 0, 3}}, 3)
	testkit.Must(t, err)
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

func allHeads(t *testing.T) *Heads {
	t.Helper()
	h, err := NewHeads([]Head{{SigmoidHead, 0, 1}, {CategoricalHead, 1, 3}, {BernoulliHead, 4, 2}, {SoftmaxHead, 6, 1},
		{GumbelHead, 7, 4}, {SoftmaxHead, 11, 2}}, 13)
	testkit.Must(t, err)
	return h
}
